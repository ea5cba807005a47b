"""Interactions of dense and sparse features. Each maps F = 1 + num_sparse vectors [B, F, d] to [B, out_features]."""

import torch
from torch import nn


class DotInteraction(nn.Module):
    """Dot interaction of a sample's vectors: the dense vector, followed by the dot products of all pairs of vectors
    (interact_features of facebookresearch/dlrm).

    The dense vector is the first, number 0. Pairs are in the order of the strictly lower triangle, row by row: (1,0),
    (2,0), (2,1), ...
    """

    def __init__(self, num_features: int, embedding_dim: int) -> None:
        super().__init__()
        self.out_features = embedding_dim + num_features * (num_features - 1) // 2
        row, column = torch.tril_indices(num_features, num_features, offset=-1)
        self.pairs: torch.Tensor
        self.register_buffer("pairs", row * num_features + column, persistent=False)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        products = torch.bmm(features, features.transpose(1, 2)).flatten(1)
        return torch.cat([features[:, 0], products.index_select(1, self.pairs)], dim=1)


class CatInteraction(nn.Module):
    """Interaction without products: the concatenation of all F vectors, [B, F, d] to [B, F * d]."""

    def __init__(self, num_features: int, embedding_dim: int) -> None:
        super().__init__()
        self.out_features = num_features * embedding_dim

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return features.flatten(1)


class LowRankCrossNet(nn.Module):
    """Cross layers x_{l+1} = x_0 * (W_l (V_l x_l) + b_l) + x_l of concatenated vectors (torchrec, LowRankCrossNet).

    W_l [N, rank] and V_l [rank, N] start Xavier normal, b_l [N] at zero; N = num_features * embedding_dim.
    """

    def __init__(self, num_features: int, embedding_dim: int, num_layers: int, low_rank_dim: int) -> None:
        super().__init__()
        self.out_features = num_features * embedding_dim
        wide, low = self.out_features, low_rank_dim
        self.w = nn.ParameterList([nn.init.xavier_normal_(torch.empty(wide, low)) for _ in range(num_layers)])
        self.v = nn.ParameterList([nn.init.xavier_normal_(torch.empty(low, wide)) for _ in range(num_layers)])
        self.bias = nn.ParameterList([torch.zeros(wide) for _ in range(num_layers)])

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        x_0 = x_l = features.flatten(1)
        for w, v, bias in zip(self.w, self.v, self.bias, strict=True):
            x_l = x_0 * nn.functional.linear(nn.functional.linear(x_l, v), w, bias) + x_l
        return x_l
