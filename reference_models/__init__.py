"""Reference models, datasets for them and their quality metrics; nothing here knows targets or benchmark rules."""
