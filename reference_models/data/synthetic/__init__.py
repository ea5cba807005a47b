"""Click data of any shape, made up in memory: for throughput only, since there is nothing in it to learn."""
