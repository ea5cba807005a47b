"""Training by several processes (ranks): process group, rendezvous, counting of bytes sent, compression of gradients,
and settings that are refused."""
