"""Records of a definition's sections (data, training, runtime, checkpoints, id map), parsed without torch."""
