"""DLRM (Naumov et al., 2019) and DLRM-DCNv2, click models of embedding tables, MLPs and an interaction."""
