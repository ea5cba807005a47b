"""What a benchmark is, and the judgement of logs. Reads logs, never makes them."""
