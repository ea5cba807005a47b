"""Interactions (dot products, cross layers, concatenation) of a sample's vectors, with hand-written forward and
backward passes.

Each interaction maps features [B, F, d] to the top MLP's input, and the gradient of that input back to [B, F, d]. A
gradient that is passed in may be overwritten; a returned tensor lives until the next call. Weights are updated during
the backward pass. If matrix products are computed in a type narrower than the weights', such as bf16, the top MLP's
input and its gradient have that type, too.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import torch

from reference_models.fused.cpu_kernels import MAX_FEATURES, WIDTHS
from reference_models.fused.dense_kernels import cross_gradients, plain_cross_gradients
from reference_models.fused.dense_parameters import Apply, DenseParameter, adopt
from reference_models.fused.layers import padded_input
from reference_models.fused.matmul import Matmuls
from reference_models.layers.interaction import CatInteraction, DotInteraction, LowRankCrossNet

Interaction = DotInteraction | CatInteraction | LowRankCrossNet


class InteractionPass(Protocol):
    """Forward and backward pass of an interaction of vectors, for batches of B samples."""

    def forward(self, features: torch.Tensor) -> torch.Tensor: ...

    def backward(self, dy: torch.Tensor, apply: Apply) -> torch.Tensor: ...


@dataclass(frozen=True, slots=True)
class FusedInteraction:
    """Weights of an interaction of vectors, shared by the passes for all batch sizes.

    A pass is the forward and backward computation for one batch size. `over(num_samples, matmuls, trains=...)` makes
    the pass for batches of `num_samples`; `matmuls` supplies the functions that multiply by the weights.
    """

    over: Callable[..., InteractionPass]
    pads_output: bool
    """Whether the interaction's output has extra columns: a column of ones, by which the next layer's bias is
    multiplied, and padding."""


def fuse_interaction(
    interaction: Interaction,
    num_features: int,
    like: torch.Tensor,
    optimizer: torch.optim.Optimizer,
    matmuls: Matmuls,
) -> FusedInteraction:
    """Return the hand-written form of an interaction; `like` is a tensor with the width, type and device of its
    vectors."""
    dtype = matmuls.dtype or like.dtype
    if isinstance(interaction, DotInteraction):
        return FusedInteraction(partial(DotPass, _Pairs(num_features, like), dtype), pads_output=True)
    if isinstance(interaction, CatInteraction):
        return FusedInteraction(partial(CatPass, dtype), pads_output=False)
    weights = [
        (
            adopt(v, optimizer, dtype=dtype),
            adopt(w, optimizer, transposes=True, dtype=dtype),
            adopt(bias, optimizer, dtype=dtype),
        )
        for v, w, bias in zip(interaction.v, interaction.w, interaction.bias, strict=True)
    ]
    return FusedInteraction(partial(CrossPass, weights), pads_output=False)


class _Pairs:
    """Indices of the products of pairs of vectors in two places: in the square matrix of all products, and in the
    pass's output."""

    def __init__(self, num_features: int, like: torch.Tensor) -> None:
        self.num_features, self.like = num_features, like
        row, column = torch.tril_indices(num_features, num_features, offset=-1, device=like.device)
        self.pairs = row * num_features + column
        dim = like.shape[1]
        self.num_pairs, self.width = len(row), dim + len(row)
        # For each product of the square, the output's column that holds its gradient. Both halves read the same
        # column, since features are on both sides of a product; the diagonal reads the column after the last pair.
        square = torch.full((num_features, num_features), self.width, device=like.device)
        square[row, column] = square[column, row] = dim + torch.arange(self.num_pairs, device=like.device)
        self.columns = square.flatten()


class DotPass:
    """Forward and backward pass of the dot interaction, which writes the dense vector, the dot products of all pairs
    of vectors, and padding into one buffer.

    The dot products are computed in the features' type, even if the model's other products are of a narrower type.
    The dot products are few, so a narrow type would save little; and it would slow the selection of the pairs.
    """

    def __init__(self, dot: _Pairs, dtype: torch.dtype, num_samples: int, matmuls: Matmuls, *, trains: bool) -> None:
        """Allocate the pass's buffers. Of `matmuls`, the pass uses only the setting whether compiled functions
        compute the products of pairs."""
        self._dot, dim = dot, dot.like.shape[1]
        is_compiled = dtype == torch.float32 and dim in WIDTHS and dot.num_features <= MAX_FEATURES
        self._cpu_kernels = matmuls.kernels_of(dot.like) if is_compiled else None
        shape = (num_samples if self._cpu_kernels is None else 0, dot.num_features, dot.num_features)
        self._products = dot.like.new_empty(shape)
        self._chosen = dot.like.new_empty(len(self._products), dot.num_pairs)
        self._y = padded_input(dot.like.new_empty(0, dtype=dtype), num_samples, dot.width)
        if trains:
            self._dproducts = dot.like.new_empty(shape)
            self._dfeatures = dot.like.new_empty(num_samples, dot.num_features, dim)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        dot, dim = self._dot, features.shape[2]
        self._features = features
        if self._cpu_kernels is not None:
            self._cpu_kernels.dot(features, self._y)
            return self._y
        torch.bmm(features, features.transpose(1, 2), out=self._products)
        torch.index_select(self._products.flatten(1), 1, dot.pairs, out=self._chosen)
        self._y[:, :dim] = features[:, 0]
        self._y[:, dim : dot.width] = self._chosen
        return self._y

    def backward(self, dy: torch.Tensor, apply: Apply) -> torch.Tensor:
        dot, dim = self._dot, self._features.shape[2]
        if self._cpu_kernels is not None:
            self._cpu_kernels.differentiate_dot(self._features, dy.contiguous(), self._dfeatures)
            return self._dfeatures
        dy = dy.to(self._products.dtype)
        dy[:, dot.width] = 0  # gradient of the padding, which the diagonal reads
        torch.index_select(dy, 1, dot.columns, out=self._dproducts.flatten(1))
        torch.bmm(self._dproducts, self._features, out=self._dfeatures)
        self._dfeatures[:, 0] += dy[:, :dim]
        return self._dfeatures


class CatPass:
    """Forward and backward pass of an interaction that only concatenates the vectors. The output is a view of the
    features."""

    def __init__(self, dtype: torch.dtype, num_samples: int, matmuls: Matmuls, *, trains: bool) -> None:
        """Store the output's type, `dtype`. Unlike the dot product, concatenation needs no buffer."""
        self._dtype = dtype

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        self._shape = features.shape
        return features.flatten(1).to(self._dtype)

    def backward(self, dy: torch.Tensor, apply: Apply) -> torch.Tensor:
        return dy.view(self._shape)


Weights = tuple[DenseParameter, DenseParameter, DenseParameter]
"""Weights of a low-rank cross layer l: V_l [rank, N], W_l [N, rank] stored as [rank, N], and the bias b_l [N]."""


class CrossPass:
    """Forward and backward pass of low-rank cross layers x_{l+1} = x_0 * (W_l u_l + b_l) + x_l with u_l = V_l x_l."""

    def __init__(self, weights: Sequence[Weights], num_samples: int, matmuls: Matmuls, *, trains: bool) -> None:
        self._layers = [_CrossLayer(*layer, matmuls, num_samples, trains=trains) for layer in weights]
        like = weights[0][0].operand
        self._dtype, self._trains = like.dtype, trains
        self._dx_0 = like.new_empty(num_samples, like.shape[1]) if trains and matmuls.keeps_results else None

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        x_0 = x = features.flatten(1).to(self._dtype)
        for layer in self._layers:
            x = layer.forward(x_0, x)
        if self._trains:
            self._shape, self._x_0 = features.shape, x_0
        return x

    def backward(self, dy: torch.Tensor, apply: Apply) -> torch.Tensor:
        dx, dx_0 = dy, self._dx_0
        for place, layer in enumerate(reversed(self._layers)):
            ends = place == len(self._layers) - 1
            dx, dx_0 = layer.backward(self._x_0, dx, dx_0, apply, adds=place > 0, ends=ends)
        del self._x_0
        return (dx if dx_0 is None else dx_0.add_(dx)).view(self._shape)


class _CrossLayer:
    def __init__(
        self,
        v: DenseParameter,
        w: DenseParameter,
        bias: DenseParameter,
        matmuls: Matmuls,
        num_samples: int,
        *,
        trains: bool,
    ) -> None:
        self._v, self._w, self._bias, self._trains, self._has_kernels = v, w, bias, trains, matmuls.has_kernels
        self._cpu_kernels = matmuls.kernels_of(v.operand)
        b = num_samples
        to_low, to_wide = v.operand, w.operand.t()
        self._low = matmuls.affine("forward", b, to_low)
        self._wide = matmuls.affine("forward", b, to_wide, None if self._cpu_kernels else bias.operand)
        if trains:
            self._back_from_wide = matmuls.affine("data_gradient", b, to_wide.t())
            self._back_from_low = matmuls.affine("data_gradient", b, to_low.t(), adds=True)
            self._dv = matmuls.weight_gradient(b, v.operand)
            self._dw = matmuls.weight_gradient(b, w.operand)

    def forward(self, x_0: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        u = self._low(x)
        z = self._wide(u)
        if self._trains:
            self._x, self._u, self._z = x, u, z
        if self._cpu_kernels is not None:
            return self._cpu_kernels.cross(x, x_0, z, self._bias.operand)
        return torch.addcmul(x, x_0, z)

    def backward(
        self, x_0: torch.Tensor, dy: torch.Tensor, dx_0: torch.Tensor | None, apply: Apply, *, adds: bool, ends: bool
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return two gradients of a cross layer: of its input x, and of x_0, the input of all cross layers. `dy` is
        the gradient of the layer's output; it may be overwritten by the gradient of x.

        - `dx_0`: memory for the gradient of x_0; None if no memory is allocated yet.
        - `adds`: add to `dx_0`, which holds the sum over the layers so far; otherwise overwrite it.
        - `ends`: this is the last layer of the backward pass. The sum of both gradients may then be returned as the
          first, and None as the second.
        """
        dz = self._z
        if self._cpu_kernels is not None:
            assert dx_0 is not None, "compiled passes are for CPUs, where results are kept"
            bias_gradient = self._cpu_kernels.differentiate_cross(
                dy, x_0, dz, self._bias.operand, dx_0, adds=adds, adds_dy=ends
            )
            dy, dx_0 = (dx_0, None) if ends else (dy, dx_0)
        else:
            differentiate = cross_gradients if self._has_kernels else plain_cross_gradients
            dx_0, bias_gradient = differentiate(dy, x_0, dz, dx_0, adds=adds)
        apply(self._bias, bias_gradient)
        du = self._back_from_wide(dz)
        apply(self._w, self._dw(self._u, dz))
        dx = self._back_from_low.add_to(dy, du)
        apply(self._v, self._dv(du, self._x))
        del self._x, self._u, self._z
        return dx, dx_0
