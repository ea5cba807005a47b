"""Examples to begin with: a model and an optimizer of one's own, and data with columns of one's own."""
