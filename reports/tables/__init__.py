"""Flat tables of facts, and the documents they are exported to and read from."""
