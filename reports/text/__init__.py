"""Numbers and texts as they are printed."""
