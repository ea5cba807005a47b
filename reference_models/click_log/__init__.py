"""The generated click log: a hidden teacher draws labels on Zipf-like ids."""
