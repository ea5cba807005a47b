"""Calibrate a benchmark's target quality: train runs, judge the conditions of a good target, and make reference
convergence points."""
