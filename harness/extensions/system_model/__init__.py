"""Model systems by their rates (FLOP/s, bytes/s, overhead of an operator), measured or given, and the time and cost
of training on these systems."""
