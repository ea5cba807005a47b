"""Hold the extensions, capabilities that the core can do without, a folder each. `rules/extensions.py` names them;
nothing else does."""
