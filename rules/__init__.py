"""Define benchmarks and judge MLPerf logs by the rules that apply to them. This package reads logs and never makes
them."""
