"""Do the work of one fresh process: train to the target, measure throughput, profile a step."""
