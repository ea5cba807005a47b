"""Foundation of all other modules: errors, files written whole or not at all, and communication among a run's
processes."""
