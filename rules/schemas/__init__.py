"""JSON Schemas of the files that `rules` defines."""
