"""Layers and embedding tables with hand-written forward and backward passes instead of autograd, for one device."""
