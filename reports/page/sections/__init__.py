"""Sections of the page, a module each."""
