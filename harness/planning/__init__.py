"""What a run would do, need and break; a few steps are timed at most."""
