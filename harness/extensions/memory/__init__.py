"""Commands `trace` (records embedding lookups) and `tiers` (simulates memories slower than DRAM that hold their
rows)."""
