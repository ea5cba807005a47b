"""`dlrmbench profile`: this system's ceilings, the phases of a training step, and the gap between them."""
