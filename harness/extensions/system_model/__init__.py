"""Model of systems by their rates, measured or given, and of the time and cost of training on them."""
