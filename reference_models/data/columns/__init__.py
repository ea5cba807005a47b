"""Clicks in files with columns of the user's own: text, JSON lines and Parquet, prepared into the store.

`parameters` says which columns are what, `files` reads them in batches, by `text` and `json_lines`; `cells` says
what a cell is, `convert` turns a batch into labels, numbers and category values, `prepare` says what the passes in
`prepared` need to know, `guess` begins a definition.
"""
