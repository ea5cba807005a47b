"""Benchmark definitions, rounds and divisions: what is judged, and by which rules."""
