"""Comparison of two configurations' results: pairs runs by seed, checks comparability, tests the factors of time to
train."""
