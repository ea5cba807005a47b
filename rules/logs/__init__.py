"""MLPerf logs: lines, keys, intervals."""
