"""Map the ids of embedding tables to fewer rows, and read a dataset's split with its ids mapped."""
