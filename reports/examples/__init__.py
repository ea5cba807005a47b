"""Examples to begin with: a notebook from results to figures and a table."""
