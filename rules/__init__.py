"""Define benchmarks and judge MLPerf logs by the rules of their rounds. This package reads logs and never makes
them."""
