"""Wukong: stacked factorization machines."""
