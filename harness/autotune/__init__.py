"""Autotuning: before the first repetition, how steps are computed on this system, by timing."""
