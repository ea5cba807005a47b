"""Define the rules that judge MLPerf logs and result sets: their type, the subjects that they judge, and their
families."""
