"""Models that answer queries: forward only, in the precisions that inference uses."""
