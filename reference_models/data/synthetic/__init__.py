"""Make synthetic click data of any shape in memory: for throughput, since by default its labels are random."""
