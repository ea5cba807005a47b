"""Past run sets and measurements of a directory, and what changed over time."""
