"""Submission trees from run sets."""
