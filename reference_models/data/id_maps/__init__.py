"""Maps from the ids of tables to fewer rows: making them, and reading a split through them."""
