"""Rules: their type, their subjects, and their families."""
