"""From logs to results and scores."""
