"""Layers in plain PyTorch, which models use and hand-written passes must agree with."""
