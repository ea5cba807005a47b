"""Examples of user code: a model, an optimizer, and data with columns of its own."""
