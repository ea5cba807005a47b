"""Compute results of runs and scores of result sets from MLPerf logs."""
