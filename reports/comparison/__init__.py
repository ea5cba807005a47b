"""Comparison of two configurations' results: pairs runs by seed, checks comparability, and tests the time to train
and its factors (samples to converge, throughput, overhead) for a difference."""
