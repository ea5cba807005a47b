"""Accesses to embedding rows, and what memories slower than DRAM make of them: `trace` and `tiers`."""
