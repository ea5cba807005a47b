"""Packaging of run sets as submission trees."""
