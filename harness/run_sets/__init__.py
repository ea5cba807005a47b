"""Run sets on disk: their folders, names and locks, and how a repetition becomes permanent in them."""
