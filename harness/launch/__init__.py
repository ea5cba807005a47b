"""Starting processes and ranks, watching over them, and agreeing before the clock starts."""
