"""`dlrmbench profile`: this system's ceilings, a step's phases, and what separates the two."""
