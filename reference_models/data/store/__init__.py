"""The memory-mapped store that generated and prepared data share."""
