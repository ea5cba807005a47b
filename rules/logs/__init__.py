"""Read MLPerf logs: their lines, keys and intervals."""
