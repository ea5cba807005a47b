"""Tuning: settings under constraints, each proposed by what those before it measured."""
