"""Hold the extensions of the harness, each an optional capability in a folder of its own; the core works without
them.

Of all files of the core, only `rules/extensions.py` names the extensions.
"""
