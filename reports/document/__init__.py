"""Documents: blocks in which every string is ready to print."""
