"""Autotuning: choose threads and matrix products of a training step by timing them on this system, before the
first run."""
