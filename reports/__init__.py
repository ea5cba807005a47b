"""Reports on benchmark results: their statistics, comparisons and tables, and the rendering of these as HTML, text or
files."""
