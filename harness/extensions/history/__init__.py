"""Show past run sets and measurements of a folder, and which of their quantities changed over time."""
