"""Facts about results: energy, noise, traffic, profiles, checkpoints, ranks, scaling laws, reference points."""
