"""Judging: all families of rules applied, compared with the official opinion, and the rule reference."""
