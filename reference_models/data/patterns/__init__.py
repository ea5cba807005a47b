"""Generated patterns of several tasks, each with its classes; the best reachable quality is known."""

from reference_models.data.patterns.generator import generate, oracle_scores

__all__ = ["generate", "oracle_scores"]
