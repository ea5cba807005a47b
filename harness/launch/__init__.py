"""Start worker processes and ranks, monitor them, and compare the ranks' configurations before the clock starts."""
