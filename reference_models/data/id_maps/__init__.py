"""Maps from the ids of tables to fewer rows: how they are made, and how a split is read through them."""
