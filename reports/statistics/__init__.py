"""Statistics for uncertain results: confidence intervals, ratios of groups of runs, permutation tests, sample
sizes."""
