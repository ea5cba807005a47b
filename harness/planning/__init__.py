"""What a run would do, need and break; nothing is run."""
