"""Calibrate a benchmark's target quality: train runs, judge conditions, and make reference convergence points."""
