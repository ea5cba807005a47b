"""Resolve a benchmark's name, a configuration file and options to the configuration of a run."""
