"""Output of commands as blocks, for every output format."""
