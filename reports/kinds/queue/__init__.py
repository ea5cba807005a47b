"""A simulated queue, in the words of serving."""
