"""Models that answer queries: forward pass alone, in the precisions that inference uses."""
