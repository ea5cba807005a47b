"""Keep run sets on disk: their folders, names and locks, and how the result of a repetition becomes permanent."""
