"""Parameters, FLOP and memory of a model as every model states them.

FLOP counts matrix products, two per multiply-add, as MLPerf and torch's FlopCounterMode do; embedding sums,
biases and activations are not in it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from reference_models.config.sections import DataConfig
from reference_models.process.errors import ConfigError

FLOAT_BYTES = 4
ID_BYTES = 8
AUC_BYTES_PER_SAMPLE = 64
"""Score, label, key and the counts per group of ties when every score is its own group."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelCosts:
    """What one model holds, and does per sample."""

    num_embedding_rows: int
    num_embedding_parameters: int
    num_dense_parameters: int
    num_lookups_per_sample: int
    embedding_bytes_per_sample: int
    """fp32 bytes of the rows that one forward pass reads."""
    forward_flop_per_sample: int
    training_flop_per_sample: int
    """Forward and backward; the gradient of the dense input is not computed."""

    @property
    def num_parameters(self) -> int:
        return self.num_embedding_parameters + self.num_dense_parameters

    @property
    def row_width(self) -> int:
        """Values in a row of a table; 1 where there is no table."""
        return self.num_embedding_parameters // self.num_embedding_rows if self.num_embedding_rows else 1

    @property
    def embedding_bytes(self) -> int:
        """Bytes of all tables in fp32."""
        return self.num_embedding_parameters * FLOAT_BYTES


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryEstimate:
    """Bytes that training in fp32 holds at its peak, beside the process itself (Python and torch)."""

    weights_bytes: int
    optimizer_bytes: int
    gradients_bytes: int
    activations_bytes: int
    evaluation_bytes: int
    """One evaluation batch, and the scores of the whole split with what their AUC takes."""

    @property
    def total_bytes(self) -> int:
        step_bytes = self.gradients_bytes + self.activations_bytes
        return self.weights_bytes + self.optimizer_bytes + max(step_bytes, self.evaluation_bytes)


def table_sizes(data: DataConfig, num_embeddings: Sequence[int] | None) -> Sequence[int]:
    """Return each table's rows. Raises ConfigError where only the prepared dataset knows them and was not asked."""
    sizes = data.num_embeddings if num_embeddings is None else num_embeddings
    if sizes is None:
        raise ConfigError(
            f"data {data.name!r}: the sizes of its tables are known once it is prepared. "
            "Prepare it with 'dlrmbench data prepare', or name it with --data."
        )
    return sizes
