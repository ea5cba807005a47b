"""Uncertainty: intervals, ratios, permutation tests, sample sizes."""
