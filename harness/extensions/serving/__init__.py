"""Measure serving: the highest rate of queries within a latency limit, simulated and under MLPerf LoadGen."""
