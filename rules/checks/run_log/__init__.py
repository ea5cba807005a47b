"""Rules over one log, a family per file."""
