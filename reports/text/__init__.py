"""Formatting of numbers and texts for output, and atomic writing of files."""
