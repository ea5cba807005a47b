"""Serving: queries answered within a latency limit, simulated and under MLPerf LoadGen."""
