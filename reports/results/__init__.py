"""Reading of results (one configuration with its runs): from logs, from the records stored with logs, or from an
export."""
