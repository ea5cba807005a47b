"""Computed facts about results: energy, noise, traffic, profiles, checkpoints, ranks, scaling laws, reference
convergence points."""
