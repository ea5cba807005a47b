"""Examples of user code: a model, an optimizer, and a dataset with the user's own columns."""
