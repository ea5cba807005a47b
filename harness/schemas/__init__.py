"""JSON Schemas of the files that `harness` writes."""
