"""Layers in plain PyTorch, to read and to compare against."""
