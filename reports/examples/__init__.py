"""Examples of use: a notebook that makes figures and a table from results."""
