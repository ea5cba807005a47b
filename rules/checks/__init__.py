"""Define the rules that judge MLPerf logs, result sets and submissions: their type, the subjects that they judge, and
their families."""
