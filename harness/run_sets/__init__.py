"""Run sets on disk, and the verbs that fill them."""
