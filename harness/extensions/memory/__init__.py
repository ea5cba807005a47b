"""Traces of embedding lookups, and simulated memories below DRAM that hold the rows: `trace` and `tiers`."""
