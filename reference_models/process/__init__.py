"""Foundation for all modules: errors, files written whole or not at all, and the processes of a run."""
