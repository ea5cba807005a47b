"""Wukong's stack of factorization machines in plain PyTorch.

Zhang et al., "Wukong: Towards a Scaling Law for Large-Scale Recommendation", arXiv:2403.02545.
A layer maps n vectors X [B, n, d] to n_F + n_L vectors:

    X' = LN(concat(FMB(X), LCB(X)) + R(X))
    FMB(X) = reshape(MLP(LN(flatten(X (X^T Y)))))      n_F vectors, by a factorization machine
    LCB(X) = W X                                       n_L vectors, linearly

Y [n, k] projects the n x n products of all pairs, which are never computed, to n x k. R is the identity, or a matrix
where the number of vectors changes. Every layer doubles the order of the interactions.
"""

from collections.abc import Sequence

import torch
from torch import nn

from reference_models.layers.mlp import InitLinear, build_mlp


class VectorMap(nn.Module):
    """Linear combinations of n vectors, from [B, n, d] to [B, m, d]; the weight [m, n] is initialised Xavier
    normal."""

    def __init__(self, num_in: int, num_out: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(nn.init.xavier_normal_(torch.empty(num_out, num_in)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(x.transpose(1, 2), self.weight).transpose(1, 2)


class FactorizationMachineBlock(nn.Module):
    """Factorization machine block: dot products of all vectors with `rank` combinations of them, mapped by an MLP."""

    def __init__(self, num_in: int, num_out: int, dim: int, rank: int, mlp: Sequence[int], init: InitLinear) -> None:
        super().__init__()
        self.num_out = num_out
        self.project = VectorMap(num_in, rank)
        self.norm = nn.LayerNorm(num_in * rank)
        self.mlp = build_mlp(num_in * rank, [*mlp, num_out * dim], init, ends_in_logit=True)

    def products(self, x: torch.Tensor) -> torch.Tensor:
        """Return the dot products of n vectors with their k projected combinations, X (X^T Y) [B, n, k]."""
        return torch.bmm(x, self.project(x).transpose(1, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.mlp(self.norm(self.products(x).flatten(1)))
        return made.view(len(x), self.num_out, -1)


class WukongLayer(nn.Module):
    """Layer of Wukong's stack: vectors of a factorization machine, then of a linear compression, plus a residual,
    normalised."""

    def __init__(
        self, num_in: int, dim: int, *, num_fmb: int, num_lcb: int, rank: int, mlp: Sequence[int], init: InitLinear
    ) -> None:
        super().__init__()
        self.fmb = FactorizationMachineBlock(num_in, num_fmb, dim, rank, mlp, init)
        self.lcb = VectorMap(num_in, num_lcb)
        num_out = num_fmb + num_lcb
        self.residual = nn.Identity() if num_in == num_out else VectorMap(num_in, num_out)
        self.norm = nn.LayerNorm(dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.norm(torch.cat([self.fmb(x), self.lcb(x)], dim=1) + self.residual(x))
        return made


class WukongStack(nn.Module):
    """Wukong's stack of layers, from vectors [B, num_features, d] to the last layer's vectors, concatenated [B,
    out_features]."""

    def __init__(
        self, num_features: int, dim: int, num_layers: int, *,
        num_fmb: int, num_lcb: int, rank: int, mlp: Sequence[int], init: InitLinear,
    ) -> None:  # fmt: skip
        super().__init__()
        num_out = num_fmb + num_lcb
        self.out_features = num_out * dim
        self.layers = nn.Sequential(
            *(
                WukongLayer(n, dim, num_fmb=num_fmb, num_lcb=num_lcb, rank=rank, mlp=mlp, init=init)
                for n in [num_features, *[num_out] * (num_layers - 1)]
            )
        )

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.layers(features)
        return made.flatten(1)
