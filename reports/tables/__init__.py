"""Tables of results with one value per cell, and their export to and import from files."""
