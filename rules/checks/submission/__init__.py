"""Hold the rules that judge a submission (one organisation's tree) or an MLPerf round of submissions."""
