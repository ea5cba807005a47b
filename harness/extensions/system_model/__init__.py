"""Model systems by their rates, measured or given, and the time and cost of training on them."""
