"""Memories slower than DRAM, a TOML file each: every number has its source."""
