"""Runs benchmarks and wires the other packages together. Nothing imports it."""
