"""Generated patterns of several tasks, each with its classes; the best reachable quality is known."""
