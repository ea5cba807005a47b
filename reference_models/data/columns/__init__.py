"""Prepare clicks from files with a user's own columns: text, JSON lines and Parquet.

`parameters` defines the columns' roles, `files` reads them in batches, by `text` and `json_lines`; `cells` parses
cells, `convert` turns a batch into labels, numbers and category values, `prepare` is the reader for the passes in
`prepared`, `guess` begins a definition.
"""
