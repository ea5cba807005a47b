"""The rules: what a rule is, what it looks at, and the families."""
