"""Benchmark definitions, rounds and divisions: the problems, and the rules that apply to them."""
