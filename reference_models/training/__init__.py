"""What every model trains with: workload protocol, optimizers, metrics, phases, devices."""
