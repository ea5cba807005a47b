"""Wukong's stack of layers with hand-written forward and backward passes, which take the place of the interaction in
`reference_models.fused.interaction`.

A layer applies several linear maps to its inputs: W, Y and, in some layers, the residual's matrix. They are computed
as one product with the stacked weights. If MLPs compute in a narrower type (bf16), all other parts of a layer stay in
the weights' type.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import nn

from reference_models.dlrm.fused_step import FusedDLRM
from reference_models.fused.dense_parameters import Apply, DenseParameter, adopt, adopt_stacked
from reference_models.fused.interaction import FusedInteraction
from reference_models.fused.layers import FusedLinear, fuse_mlp, passes
from reference_models.fused.matmul import Matmuls
from reference_models.wukong.model import Wukong
from reference_models.wukong.stack import VectorMap, WukongLayer, WukongStack


def fuse_stack(
    stack: WukongStack, like: torch.Tensor, optimizer: torch.optim.Optimizer, matmuls: Matmuls
) -> FusedInteraction:
    """Return Wukong's stack with hand-written passes. It takes over the weights of `stack`, which `optimizer`
    updates.

    The output has the data type that `matmuls` states. If `matmuls` states none, it has the data type of the tensor
    `like`, which is the weights' type.
    """
    layers = [_take_over(layer, optimizer, matmuls) for layer in stack.layers if isinstance(layer, WukongLayer)]
    return FusedInteraction(partial(StackPass, layers, matmuls.dtype or like.dtype), pads_output=False)


@dataclass(frozen=True, slots=True)
class _Norm:
    """Weights of a layer normalisation over the last `width` numbers of a tensor."""

    weight: DenseParameter
    bias: DenseParameter
    width: int
    eps: float


@dataclass(frozen=True, slots=True)
class _Layer:
    """Weights of a layer of Wukong's stack. `maps` [rank + num_lcb (+ num_out), n] stacks the matrices with which the
    layer multiplies its n input embeddings: Y^T of the factorization machine, W of the linear compression, and that
    of the residual if there is one."""

    maps: DenseParameter
    norm_products: _Norm
    mlp: Sequence[FusedLinear]
    norm: _Norm
    rank: int
    num_fmb: int
    num_lcb: int
    has_residual_map: bool


def _take_over(layer: WukongLayer, optimizer: torch.optim.Optimizer, matmuls: Matmuls) -> _Layer:
    maps: list[torch.Tensor] = [layer.fmb.project.weight, layer.lcb.weight]
    if has_map := isinstance(layer.residual, VectorMap):
        maps.append(layer.residual.weight)
    return _Layer(
        maps=adopt_stacked(maps, optimizer),
        norm_products=_take_over_norm(layer.fmb.norm, optimizer),
        mlp=fuse_mlp(layer.fmb.mlp, optimizer, matmuls, pads_input=False),
        norm=_take_over_norm(layer.norm, optimizer),
        rank=len(maps[0]),
        num_fmb=layer.fmb.num_out,
        num_lcb=len(maps[1]),
        has_residual_map=has_map,
    )


def _take_over_norm(norm: nn.LayerNorm, optimizer: torch.optim.Optimizer) -> _Norm:
    return _Norm(adopt(norm.weight, optimizer), adopt(norm.bias, optimizer), norm.normalized_shape[0], norm.eps)


class StackPass:
    """Forward and backward pass of all layers of Wukong's stack over B samples."""

    def __init__(
        self, layers: Sequence[_Layer], dtype: torch.dtype, num_samples: int, matmuls: Matmuls, *, trains: bool
    ) -> None:
        self._dtype = dtype
        self._layers = [_LayerPass(layer, matmuls, num_samples, trains=trains) for layer in layers]

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Return the stack's output, the last layer's vectors concatenated to [B, out], of features [B, F, d]."""
        x = features.to(self._layers[0].dtype)
        for layer in self._layers:
            x = layer.forward(x)
        self._shape, self._features_dtype = x.shape, features.dtype
        return x.flatten(1).to(self._dtype)

    def backward(self, dy: torch.Tensor, apply: Apply) -> torch.Tensor:
        """Return the gradient of the stack's input from the gradient of its output, `dy`; call `apply` with each
        weight and its gradient."""
        dx = dy.to(self._layers[0].dtype).view(self._shape)
        for layer in reversed(self._layers):
            dx = layer.backward(dx, apply)
        return dx.to(self._features_dtype)


class _NormPass:
    def __init__(self, norm: _Norm) -> None:
        self._norm, self._shape = norm, [norm.width]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        norm, self._x = self._norm, x
        y, self._mean, self._rstd = torch.native_layer_norm(
            x, self._shape, norm.weight.value, norm.bias.value, norm.eps
        )
        return y

    def backward(self, dy: torch.Tensor, apply: Apply) -> torch.Tensor:
        norm = self._norm
        dx, dweight, dbias = torch.ops.aten.native_layer_norm_backward(
            dy, self._x, self._shape, self._mean, self._rstd, norm.weight.value, norm.bias.value, [True, True, True]
        )
        apply(norm.weight, dweight)
        apply(norm.bias, dbias)
        made: torch.Tensor = dx
        return made


class _LayerPass:
    """Forward and backward pass of a layer of the stack over B samples. Vectors are [B, n, d], except for the results
    of the linear maps, which are [B, d, n]."""

    def __init__(self, layer: _Layer, matmuls: Matmuls, num_samples: int, *, trains: bool) -> None:
        self._layer = layer
        maps, rows = layer.maps.operand, num_samples * layer.norm.width
        self.dtype = maps.dtype
        self._map = matmuls.affine("forward", rows, maps)
        self._norm_products, self._norm = _NormPass(layer.norm_products), _NormPass(layer.norm)
        self._mlp = passes(layer.mlp, num_samples, matmuls, trains=trains, needs_dx=True)
        if trains:
            self._back = matmuls.affine("data_gradient", rows, maps.t())
            self._dmaps = matmuls.weight_gradient(rows, maps)
            self._dmapped = maps.new_empty(num_samples, layer.norm.width, len(maps))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        layer, (num_samples, n, d) = self._layer, x.shape
        turned = x.transpose(1, 2).contiguous()
        mapped = self._map(turned.view(-1, n)).view(num_samples, d, -1)
        low, linear, residual = torch.split(mapped, self._parts(mapped.shape[2]), dim=2)
        products = torch.bmm(x, low)
        y = self._norm_products.forward(products.view(num_samples, -1))
        for module in self._mlp:
            y = module.forward(y)
        made = torch.empty(num_samples, layer.num_fmb + layer.num_lcb, d, dtype=x.dtype, device=x.device)
        made.copy_(residual.transpose(1, 2) if layer.has_residual_map else x)
        made[:, : layer.num_fmb] += y.view(num_samples, layer.num_fmb, d)
        made[:, layer.num_fmb :] += linear.transpose(1, 2)
        self._x, self._turned, self._low, self._mlp_dtype = x, turned, low, y.dtype
        return self._norm.forward(made)

    def backward(self, dy: torch.Tensor, apply: Apply) -> torch.Tensor:
        layer, x = self._layer, self._x
        num_samples, n, d = x.shape
        dmade = self._norm.backward(dy, apply)
        dlow, dlinear, dresidual = torch.split(self._dmapped, self._parts(self._dmapped.shape[2]), dim=2)
        dlinear.copy_(dmade[:, layer.num_fmb :].transpose(1, 2))
        if layer.has_residual_map:
            dresidual.copy_(dmade.transpose(1, 2))
        dproducts: torch.Tensor | None = dmade[:, : layer.num_fmb].reshape(num_samples, -1).to(self._mlp_dtype)
        for module in reversed(self._mlp):
            assert dproducts is not None
            dproducts = module.backward(dproducts, apply)
        assert dproducts is not None
        dproducts = self._norm_products.backward(dproducts, apply).view(num_samples, n, layer.rank)
        dlow.copy_(torch.bmm(self._turned, dproducts))
        dx = torch.bmm(dproducts, self._low.transpose(1, 2))
        dmapped, turned = self._dmapped.view(num_samples * d, -1), self._turned.view(num_samples * d, n)
        dx += self._back(dmapped).view(num_samples, d, n).transpose(1, 2)
        if not layer.has_residual_map:
            dx += dmade
        apply(layer.maps, self._dmaps(dmapped, turned))
        return dx

    def _parts(self, num_maps: int) -> list[int]:
        """Return the numbers of vectors, by kind, in the result of the layer's stacked linear maps: projections,
        linear compressions, residuals."""
        layer = self._layer
        return [layer.rank, layer.num_lcb, num_maps - layer.rank - layer.num_lcb]


class FusedWukong(FusedDLRM, Wukong):
    """Wukong whose weights are stored as the hand-written passes need them; to all other code it is a plain
    Wukong."""

    def _fuse_interaction(self, like: torch.Tensor, optimizer: torch.optim.Optimizer) -> FusedInteraction:
        return fuse_stack(self.interaction, self.merged_weight, optimizer, self.matmuls)
