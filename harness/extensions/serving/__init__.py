"""Serving: queries answered within a latency limit, on a virtual clock and under MLPerf LoadGen."""
