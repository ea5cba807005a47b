"""DLRM (Naumov et al., 2019) and DLRM-DCNv2 (MLPerf Training v3.0 to v6.0) in plain PyTorch.

Dense features float [B, num_dense] go through the bottom MLP to [B, d]; the ids of sparse feature f, int64
[B, multi_hot[f]], each fetch a row of table f, and the sum of the rows is [B, d]. The interaction maps these
1 + num_sparse vectors to one vector, and the top MLP maps that to the logit of a click.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from reference_models.dlrm.config import DLRMConfig, MLPWidths
from reference_models.dlrm.phases import DLRMPhase
from reference_models.layers.interaction import CatInteraction, DotInteraction, LowRankCrossNet
from reference_models.layers.mlp import (
    InitLinear,
    build_embedding_bag,
    build_mlp,
    init_linear_dlrm,
    init_linear_torchrec,
)
from reference_models.training.phases import Enter, enter_before_backward, ignore_phase

INITS: dict[str, InitLinear] = {"dlrm": init_linear_dlrm, "torchrec": init_linear_torchrec}


class DLRM(nn.Module):
    """Click model: an embedding table per sparse feature, a bottom MLP, an interaction, and a top MLP to the logit.

    Weights are made on torch's default device and drawn from torch's global generator. `config.init` names the
    project whose initial distributions are used. By default it is facebookresearch/dlrm for the interactions `dot`
    and `cat`, and torchrec for `dcn`. `tables` are the tensors in which the embeddings' weights are stored; by
    default each table has a new tensor.
    """

    def __init__(
        self,
        config: MLPWidths,
        *,
        num_dense: int,
        num_embeddings: Sequence[int],
        multi_hot: Sequence[int],
        tables: Sequence[torch.Tensor | None] | None = None,
    ) -> None:
        super().__init__()
        self.multi_hot = list(multi_hot)
        self.enter: Enter = ignore_phase
        init = INITS[config.init]
        self.embedding_bags = nn.ModuleList(
            [
                build_embedding_bag(rows, config.embedding_dim, table)
                for rows, table in zip(num_embeddings, tables or [None] * len(num_embeddings), strict=True)
            ]
        )
        self.bottom_mlp = build_mlp(num_dense, config.bottom_mlp, init, ends_in_logit=False)
        self.interaction = self._build_interaction(config, num_features=1 + len(num_embeddings))
        self.top_mlp = build_mlp(self.interaction.out_features, config.top_mlp, init, ends_in_logit=True)

    def _build_interaction(self, config: Any, num_features: int) -> Any:
        """Return the interaction as a module from [B, num_features, d] to [B, out_features]; subclasses of DLRM
        override it."""
        return build_interaction(config, num_features)

    def forward(self, dense: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
        """Return logits float [B] of dense float32 [B, num_dense] and ids int64 [B, sum(multi_hot)]."""
        bags = torch.split(indices, self.multi_hot, dim=1)
        self.enter(DLRMPhase.BOTTOM_MLP_FORWARD)
        vectors = [self.bottom_mlp(dense)]
        self.enter(DLRMPhase.EMBEDDING_FORWARD)
        vectors += [bag(ids) for bag, ids in zip(self.embedding_bags, bags, strict=True)]
        self.enter(DLRMPhase.INTERACTION_FORWARD)
        joined = self.interaction(torch.stack(vectors, dim=1))
        self.enter(DLRMPhase.TOP_MLP_FORWARD)
        logits: torch.Tensor = self.top_mlp(joined)
        self.enter(DLRMPhase.LOSS)
        # Autograd differentiates the bags in reverse order.
        backward: dict[str, torch.Tensor] = {
            DLRMPhase.BOTTOM_MLP_BACKWARD: vectors[0],
            DLRMPhase.EMBEDDING_BACKWARD: vectors[-1],
            DLRMPhase.INTERACTION_BACKWARD: joined,
            DLRMPhase.TOP_MLP_BACKWARD: logits,
        }
        enter_before_backward(self.enter, backward)
        return logits.squeeze(1)

    def embedding_parameters(self) -> list[nn.Parameter]:
        return list(self.embedding_bags.parameters())

    def dense_parameters(self) -> list[nn.Parameter]:
        return [p for name, p in self.named_parameters() if not name.startswith("embedding_bags.")]


def build_interaction(config: DLRMConfig, num_features: int) -> DotInteraction | CatInteraction | LowRankCrossNet:
    if config.interaction == "dot":
        return DotInteraction(num_features, config.embedding_dim)
    if config.interaction == "cat":
        return CatInteraction(num_features, config.embedding_dim)
    return LowRankCrossNet(num_features, config.embedding_dim, config.dcn_num_layers, config.dcn_low_rank_dim)
