"""Reports: statistics, comparison, tables and rendering of results."""
