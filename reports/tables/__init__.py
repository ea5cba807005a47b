"""Flat tables of results, and their export to and import from files."""
