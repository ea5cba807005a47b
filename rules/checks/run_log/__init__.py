"""Hold the rules that judge one MLPerf log, a family of rules per file."""
