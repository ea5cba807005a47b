"""Generate patterns: images to be classified for several tasks at once, whose best reachable quality is known."""
