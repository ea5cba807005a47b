"""Hold the shipped usage files: models that one application requests together, each with a rate and a deadline."""
