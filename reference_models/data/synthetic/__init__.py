"""Synthetic click data of any shape, held in memory: for throughput only, since there is nothing in it to learn."""
