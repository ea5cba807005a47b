"""Datasets: the protocol of their readers, the registry, one folder per kind."""
