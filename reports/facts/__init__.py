"""Facts computed from results: energy, noise, traffic between ranks, profiles, checkpoints, numbers of ranks, scaling
laws, reference convergence points."""
