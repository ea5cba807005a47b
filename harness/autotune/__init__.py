"""Autotune: choose threads and kernels for matrix products of a training step by timing them on this system, before
the first run."""
