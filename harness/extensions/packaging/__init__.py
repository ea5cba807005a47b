"""Package run sets as MLPerf submission trees."""
