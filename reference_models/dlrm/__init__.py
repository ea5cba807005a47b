"""DLRM (Naumov et al., 2019) and DLRM-DCNv2."""
