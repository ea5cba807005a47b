"""This system: what it is, what it may use, what disturbs measurements on it."""
