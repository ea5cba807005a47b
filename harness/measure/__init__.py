"""What one fresh process does: a run, a measurement of throughput, a profile."""
