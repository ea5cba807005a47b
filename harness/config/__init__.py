"""Resolve a benchmark's name, a configuration file and options to one configuration."""
