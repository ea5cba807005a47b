"""Hardware as TOML files describe it, every number with its source."""
