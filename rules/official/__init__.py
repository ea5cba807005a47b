"""Run MLPerf's official checkers in a confined process of their own."""
