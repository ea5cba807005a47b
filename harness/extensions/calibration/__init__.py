"""Calibration of a benchmark's target: runs, conditions, reference convergence points."""
