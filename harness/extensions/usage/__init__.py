"""Measure a usage (several models that one application requests, each with a deadline): schedule it in real or
simulated time, and score it."""
