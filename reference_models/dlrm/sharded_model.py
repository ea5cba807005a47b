"""DLRM with sharded tables: the reference's dense layers on every rank, and bags of ids instead of a matrix."""

from collections.abc import Sequence

import torch
from torch import nn
from torchrec.modules.embedding_modules import EmbeddingBagCollection
from torchrec.sparse.jagged_tensor import KeyedJaggedTensor

from reference_models.data.store.dataset import Batch
from reference_models.dlrm.config import DLRMConfig
from reference_models.dlrm.model import INITS, build_interaction
from reference_models.dlrm.sharding import feature_name
from reference_models.layers.mlp import build_mlp


class ShardedDLRM(nn.Module):
    """DLRM with its tables in an EmbeddingBagCollection; gives the loss of this rank's samples and their logits."""

    def __init__(
        self, config: DLRMConfig, tables: EmbeddingBagCollection, *, num_dense: int, num_sparse: int
    ) -> None:
        super().__init__()
        self.features = [feature_name(index) for index in range(num_sparse)]
        self.tables = tables
        self.dense = DenseParts(config, num_dense=num_dense, num_sparse=num_sparse)

    def forward(
        self, dense: torch.Tensor, ids: KeyedJaggedTensor, labels: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The mean loss and the logits float [B] of dense [B, num_dense], bags of ids, labels [B]."""
        # By name: where tables lie on several ranks their vectors arrive in the order of the ranks.
        pooled = self.tables(ids).to_dict()
        logits = self.dense(dense, [pooled[feature] for feature in self.features])
        return nn.functional.binary_cross_entropy_with_logits(logits, labels), logits.detach()


class DenseParts(nn.Module):
    """What of DLRM every rank holds: bottom MLP, interaction, top MLP; drawn in the order of `DLRM`."""

    def __init__(self, config: DLRMConfig, *, num_dense: int, num_sparse: int) -> None:
        super().__init__()
        init = INITS[config.init]
        self.bottom_mlp = build_mlp(num_dense, config.bottom_mlp, init, ends_in_logit=False)
        self.interaction = build_interaction(config, num_features=1 + num_sparse)
        self.top_mlp = build_mlp(self.interaction.out_features, config.top_mlp, init, ends_in_logit=True)

    def forward(self, dense: torch.Tensor, pooled: Sequence[torch.Tensor]) -> torch.Tensor:
        vectors = torch.stack([self.bottom_mlp(dense), *pooled], dim=1)
        logits: torch.Tensor = self.top_mlp(self.interaction(vectors))
        return logits.squeeze(1).float()


def bags_of(batch: Batch, multi_hot: Sequence[int], features: Sequence[str]) -> KeyedJaggedTensor:
    """The ids of a batch as TorchRec takes them: feature by feature, sample by sample."""
    num_samples = len(batch.labels)
    values = torch.cat([ids.flatten() for ids in torch.split(batch.indices, list(multi_hot), dim=1)])
    lengths = torch.tensor(multi_hot, dtype=torch.int32).repeat_interleave(num_samples)
    return KeyedJaggedTensor(
        keys=list(features),
        values=values,
        lengths=lengths,
        stride=num_samples,
        length_per_key=[num_ids * num_samples for num_ids in multi_hot],
    )
