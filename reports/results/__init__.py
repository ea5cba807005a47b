"""Results: one configuration with its repetitions, read from logs, from records beside them, or from an export."""
