"""Parts of training that all models share: workload protocol, loop, optimizers, metrics, phases, devices."""
