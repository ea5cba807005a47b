"""Placement of embedding tables on devices, found by searches: `place`."""
