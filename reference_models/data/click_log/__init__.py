"""Generate a click log: a dataset whose best reachable quality (AUC) is known."""
