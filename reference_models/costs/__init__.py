"""What a model holds and what a training step of it has to do: parameters, FLOP, bytes; computed, torch-free."""
