"""Torch-free configuration of data, training and runtime."""
