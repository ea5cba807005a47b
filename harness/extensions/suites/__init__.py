"""Suites of several benchmarks, each in two settings, with a verdict each and one mean."""
