"""Sections of the HTML page, one module per section."""
