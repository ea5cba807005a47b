"""Wukong (Zhang et al., 2024), a click model whose interaction is a stack of factorization machines."""
