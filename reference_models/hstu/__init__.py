"""DLRMv4: a recommender that reads a user's history by HSTU layers, small enough to train on a CPU."""
