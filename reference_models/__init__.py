"""Reference models, their data and their metrics; independent of targets and rules."""
