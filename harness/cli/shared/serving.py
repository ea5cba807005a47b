"""What `serve` and `sweep --serve` are asked in the same words."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.config.run_config import Override


def weights_override(weights: str | None) -> "list[Override]":
    """Return the key that says which weights are served. Raises HarnessError where a set has none."""
    from harness.config.run_config import Override
    from harness.run_sets.names import find_weights

    if weights is None:
        return []
    # Whole, since `latest` is about to be another set.
    return [Override(key="serve.weights", value=str(find_weights(weights).resolve()), source="option --weights")]
