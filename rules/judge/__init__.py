"""Judging: all families applied, the official opinion beside ours, the handbook of rules."""
