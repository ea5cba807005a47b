"""Define records of what commands keep other than measurements: manifests of weights, checkpoints, id maps, trained
networks and bundles; placement plans; tables of published results; hooks and events."""
