"""Reading of results: one configuration with its runs, from logs, from the records beside them, or from an export."""
