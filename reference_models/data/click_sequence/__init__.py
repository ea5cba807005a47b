"""The generated sequence log: who met which item when, and clicked on it; the best reachable quality is known."""
