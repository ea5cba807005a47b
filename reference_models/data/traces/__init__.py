"""Traces of embedding lookups: which rows are looked up, in which order, and the stack distances of lookups."""
