"""Generated click log: a dataset whose best reachable quality is known."""
