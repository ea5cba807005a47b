"""The work of one fresh process: a run, a measurement of throughput, a profile."""
