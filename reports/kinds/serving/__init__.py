"""Serving: the answer, latency against load, how it was served, precisions."""
