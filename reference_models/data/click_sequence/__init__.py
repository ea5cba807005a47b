"""The generated sequence log: who met which item when, and clicked on it; the best reachable quality is known."""

from reference_models.data.click_sequence.generator import generate, oracle_scores

__all__ = ["generate", "oracle_scores"]
