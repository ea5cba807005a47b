"""DLRMv4: a generative recommender of HSTU layers, small enough to train on a CPU."""
