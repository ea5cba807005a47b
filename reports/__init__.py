"""Reports on benchmark results: statistics, comparison, tables, and rendering as HTML, text or files."""
