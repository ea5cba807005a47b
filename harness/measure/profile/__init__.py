"""Profile a training step, for `dlrmbench profile`: its phases, this system's ceilings, and the gap between them."""
