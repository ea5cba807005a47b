"""Parts of training that all models share: workload protocol, training loop, optimizers, metrics, phases, devices."""
