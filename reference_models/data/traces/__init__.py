"""Traces: which rows of embedding tables are looked up and in which order, and what a cache makes of that order."""
