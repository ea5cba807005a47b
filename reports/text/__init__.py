"""Numbers and texts as they are printed, and files as they are written."""
