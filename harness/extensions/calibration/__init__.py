"""Where the target of a benchmark should be: runs, conditions, reference convergence points."""
