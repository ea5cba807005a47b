"""Layers with hand-written passes, for one device."""
