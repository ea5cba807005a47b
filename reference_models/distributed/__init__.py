"""Several processes: process group, rendezvous, traffic, compression, limits."""
