"""Records of a benchmark definition's sections (data, training, runtime, checkpoints, id map), parsed without
torch."""
