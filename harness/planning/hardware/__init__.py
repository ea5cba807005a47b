"""Describe hardware in TOML files, every number with its source."""
