"""Define benchmarks, MLPerf's rounds and divisions: the problems to train, and the rules that apply to their
results."""
