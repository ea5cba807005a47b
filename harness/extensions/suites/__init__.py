"""Measure suites: several benchmarks, each in two settings, with a verdict for each benchmark and one geometric mean
of all their ratios."""
