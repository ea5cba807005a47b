"""Rules over one result set, a family per file."""
