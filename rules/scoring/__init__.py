"""Results and scores from logs."""
