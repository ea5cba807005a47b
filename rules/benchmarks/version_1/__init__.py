"""Version 1 of the generated benchmarks: what judges sets of it."""
