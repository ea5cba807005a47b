"""Data classes for the sections of a benchmark definition (TOML) on data, training, runtime, checkpoints and the id
map; parsed without torch."""
