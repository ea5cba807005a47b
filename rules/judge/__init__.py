"""Judge logs and sets by all families of rules, compare the verdicts with the official checkers', and print the rule
reference."""
