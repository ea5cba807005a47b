"""Make synthetic click data of any shape in memory: to measure throughput, since by default labels are random."""
