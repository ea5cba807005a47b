"""Multi-layer perceptrons and embedding tables, initialised as facebookresearch/dlrm or torchrec does."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

InitLinear = Callable[[nn.Linear], None]


def init_linear_dlrm(linear: nn.Linear) -> None:
    """Draw weight ~ N(0, 2 / (m + n)), bias ~ N(0, 1 / m) of an n -> m layer (facebookresearch/dlrm, create_mlp)."""
    nn.init.normal_(linear.weight, std=math.sqrt(2 / (linear.out_features + linear.in_features)))
    nn.init.normal_(linear.bias, std=math.sqrt(1 / linear.out_features))


def init_linear_torchrec(linear: nn.Linear) -> None:
    """Draw weight and bias ~ U(-1 / sqrt(n), 1 / sqrt(n)) of a layer with n inputs, nn.Linear's default (torchrec,
    Perceptron and OverArch)."""
    bound = 1 / math.sqrt(linear.in_features)
    nn.init.uniform_(linear.weight, -bound, bound)
    nn.init.uniform_(linear.bias, -bound, bound)


def build_mlp(in_features: int, widths: Sequence[int], init: InitLinear, *, ends_in_logit: bool) -> nn.Sequential:
    """Build linear layers of the given widths, with a ReLU after each layer, except after a last layer that returns
    the logit.

    Maps [B, in_features] to [B, widths[-1]].
    """
    layers: list[nn.Module] = []
    for width in widths:
        linear = nn.Linear(in_features, width)
        init(linear)
        layers += [linear, nn.ReLU()]
        in_features = width
    return nn.Sequential(*(layers[:-1] if ends_in_logit else layers))


def build_embedding_bag(
    num_embeddings: int, embedding_dim: int, storage: torch.Tensor | None = None
) -> nn.EmbeddingBag:
    """Build a table that sums bags of rows, with weights ~ U(-1 / sqrt(rows), 1 / sqrt(rows)) and sparse gradients.

    Both reference codes agree on this distribution (facebookresearch/dlrm create_emb; torchrec
    BaseEmbeddingConfig.get_weight_init_max). The table maps ids int64 [B, L] to sums [B, embedding_dim]. `storage`
    [num_embeddings, embedding_dim] is the memory for the weights; by default new memory is allocated.
    """
    bound = 1 / math.sqrt(num_embeddings)
    weight = torch.empty(num_embeddings, embedding_dim) if storage is None else storage
    weight.uniform_(-bound, bound)
    options: dict[str, Any] = {"mode": "sum", "sparse": True, "_weight": weight}
    return nn.EmbeddingBag(num_embeddings, embedding_dim, **options)
