"""Systems by their rates, measured or given, and what training would take on them."""
