"""Define the manifests (lists of arrays with digests) of outputs of runs that are used again: weights, checkpoints,
id maps."""
