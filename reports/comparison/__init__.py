"""Comparison of configurations: pairing of runs, comparability, factors of the time to train, differences."""
