"""The generated click log: a dataset whose best reachable quality is known."""

from reference_models.data.click_log.generator import click_probabilities, generate, oracle_scores

__all__ = ["click_probabilities", "generate", "oracle_scores"]
