"""JSON Schemas of the files that `reports` writes."""
