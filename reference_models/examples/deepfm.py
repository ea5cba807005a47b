"""A complete model as user code: DeepFM, a factorisation machine beside an MLP (Guo et al., 2017, arXiv:1703.04247).

    dlrmbench run ./deepfm.toml --model deepfm.py:SPEC

`dlrmbench init --model deepfm.py` writes this file with a definition beside it. User code is one file, which may
import installed packages; its digest is recorded.
"""

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import nn

from reference_models.config.records import PositiveCount, read_section
from reference_models.data.store.dataset import Batch
from reference_models.spec import Implementation, ModelSpec
from reference_models.training.loop import Built, TrainingLoop
from reference_models.training.optimizers import build_optimizers


@dataclass(frozen=True)
class DeepFMConfig:
    """Section [model] of the definition: keys, types and defaults."""

    embedding_dim: PositiveCount = 16
    """Number of values of an embedding row."""
    mlp: tuple[PositiveCount, ...] = (64, 32)
    """Widths of the MLP's hidden layers."""


class DeepFM(nn.Module):
    """Model of clicks: a weight and a vector per id, dot products of pairs of vectors, an MLP over all vectors.

    In shapes, B is the number of samples in a batch, and F the number of sparse features. Feature f has a table of
    `num_embeddings[f]` rows and `multi_hot[f]` ids per sample.
    """

    def __init__(
        self, config: DeepFMConfig, num_dense: int, num_embeddings: tuple[int, ...], multi_hot: tuple[int, ...]
    ) -> None:
        super().__init__()
        self.multi_hot = list(multi_hot)
        # The first value of a row is the id's weight, the others are its vector.
        tables = [nn.EmbeddingBag(rows, 1 + config.embedding_dim, mode="sum", sparse=True) for rows in num_embeddings]
        for table in tables:
            nn.init.normal_(table.weight, std=0.01)
        self.tables = nn.ModuleList(tables)
        self.first_order = nn.Linear(num_dense, 1)
        widths = (num_dense + len(num_embeddings) * config.embedding_dim, *config.mlp)
        layers = [layer for n, m in pairwise(widths) for layer in (nn.Linear(n, m), nn.ReLU())]
        self.mlp = nn.Sequential(*layers, nn.Linear(widths[-1], 1))

    def forward(self, dense: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
        """Return logits [B] of `dense` float32 [B, num_dense] and `indices` int64 [B, sum(multi_hot)].

        The ids of a feature are neighbouring columns; `tables[f]` sums the rows of each sample's `multi_hot[f]` ids.
        """
        ids = torch.split(indices, self.multi_hot, dim=1)
        rows = torch.stack([table(each) for table, each in zip(self.tables, ids, strict=True)], dim=1)
        weights, vectors = rows[:, :, 0], rows[:, :, 1:]  # [B, F] and [B, F, embedding_dim]
        pairs = (vectors.sum(dim=1).square() - vectors.square().sum(dim=1)).sum(dim=1) / 2
        deep = self.mlp(torch.cat([dense, vectors.flatten(1)], dim=1))
        logits: torch.Tensor = (self.first_order(dense) + deep).squeeze(1) + weights.sum(dim=1) + pairs
        return logits


class DeepFMWorkload(TrainingLoop):
    """Workload that trains the model by the shared training loop, on the CPU or one GPU.

    Only `build_model` has to be written. These may be overridden, too, with shapes as in TrainingLoop's docstrings
    (`python -c "help('reference_models.training.loop.TrainingLoop')"`):

    - `compute_logits(model, batch)`: logits float32 [B]. `batch.dense` is float32 [B, num_dense], `batch.indices`
      int64 [B, sum(multi_hot)], `batch.labels` float32 [B], 0 or 1, or soft labels between.
    - `train_step(model, optimizers, batch)`: updates the weights once, returns the mean loss [] without gradient.
    - `read_batches(split, name, starts, batch_size)`, `read_batch(split, name, start, stop)`: the samples.
    - `make_synthetic_batch(num_embeddings, size)`: a synthetic batch for the warm-up.
    - `check_loss(total_loss)`, `check_world()`, `warm_up()`, `autocast()`.

    The loop sets `self.spec` (`.model` is a DeepFMConfig, `.train` the batch size and optimizer, `.seed`),
    `self.data`, `self.device`, `self.model` and `self.optimizers`. Random numbers come from torch's generator, which
    is seeded.
    """

    name = "deepfm"

    def build_model(self, num_embeddings: tuple[int, ...]) -> Built:
        """Build the model and the optimizers. It is called twice: for a copy with small tables, on which the code is
        warmed up, and for the run."""
        split = self.data.train
        with self.device:
            model = DeepFM(self.spec.model, split.num_dense, num_embeddings, split.multi_hot)
        tables = list(model.tables.parameters())
        others = [parameter for name, parameter in model.named_parameters() if not name.startswith("tables.")]
        # Optimizers of [train]. Any torch.optim.Optimizer may be used; the log names it.
        return model, build_optimizers(self.spec.train, embedding_parameters=tables, dense_parameters=others)

    def compute_logits(self, model: DeepFM, batch: Batch) -> torch.Tensor:
        """Return logits float32 [B]. The loop's default does the same, so this may be left out."""
        return super().compute_logits(model, batch)


SPEC = ModelSpec(
    section=DeepFMConfig,
    parse=lambda table: read_section("model", table, DeepFMConfig),
    implementations={"reference": Implementation(load=DeepFMWorkload)},
)
"""ModelSpec that --model names. Since it states no `costs`, the model's FLOP are counted by running one batch."""
