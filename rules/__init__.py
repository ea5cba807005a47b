"""Benchmark definitions, and the judgement of logs. Reads logs, never makes them."""
