"""Models that answer queries (batches to score): the forward pass only, in the precisions that inference uses."""
