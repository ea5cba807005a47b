"""Define the records of files that commands write and that hold no measurements: manifests of weights, checkpoints,
id maps, trained networks and bundles; placement plans; tables of published results; hooks and events."""
