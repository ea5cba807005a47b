"""The official checkers, in a confined process of their own."""
