"""Training by several processes (ranks): process group, rendezvous, bytes sent, gradient compression, limits."""
