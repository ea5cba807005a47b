"""Formatting of numbers and texts, and atomic writing of files."""
