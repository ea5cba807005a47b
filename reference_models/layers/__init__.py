"""Layers in plain PyTorch, the reference for hand-written passes."""
