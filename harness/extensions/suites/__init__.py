"""Measure suites of several benchmarks, each in two settings, with a verdict for each and one mean of all ratios."""
