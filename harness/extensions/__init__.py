"""Hold the extensions of the harness, a folder each: capabilities without which its core works. `rules/extensions.py`
names the extensions; no other file of the core does."""
