"""Start processes and ranks, watch over them, and compare configurations before the clock starts."""
