"""Memory-mapped store of generated and prepared data."""
