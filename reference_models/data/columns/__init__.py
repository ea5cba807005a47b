"""Prepare clicks from files with a user's own columns: text, JSON lines and Parquet.

- `parameters` defines the columns' roles.
- `files` reads files in batches of rows, with the help of `text` and `json_lines`.
- `cells` parses cells.
- `convert` turns a batch into labels, numbers and category values.
- `prepare` makes a dataset by the passes of `prepared.pipeline`.
- `guess` guesses the columns' roles for a new definition.
"""
