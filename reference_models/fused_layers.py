"""Fully connected layers with hand-written passes over preallocated buffers.

A pass over B samples is a `LinearPass`: it owns its buffers and shares the layer's weights with passes of other
sizes. Gradients that arrive are overwritten.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import nn

from reference_models.dense_parameters import DenseParameter, adopt_linear, padded, update
from reference_models.products import add_product, multiply


@dataclass(frozen=True, slots=True)
class FusedLinear:
    """The weights of one layer: [in, out] and a bias [out], or [padded in, out] with the bias as one of its rows."""

    weight: DenseParameter
    bias: DenseParameter | None
    has_relu: bool

    def update(self, lr: float, eps: float) -> None:
        update(self.weight, lr, eps)
        if self.bias is not None:
            update(self.bias, lr, eps)


def fuse_mlp(mlp: nn.Sequential, optimizer: torch.optim.Optimizer, *, pads_input: bool) -> list[FusedLinear]:
    """The layers of `layers.build_mlp`'s result; with `pads_input` the first one takes padded inputs."""
    modules: list[nn.Module | None] = [*mlp, None]
    return [
        FusedLinear(*adopt_linear(module, optimizer, pads=pads_input and not i), isinstance(after, nn.ReLU))
        for i, (module, after) in enumerate(pairwise(modules))
        if isinstance(module, nn.Linear)
    ]


def padded_input(like: torch.Tensor, num_samples: int, width: int) -> torch.Tensor:
    """A buffer [B, padded(width)] whose column `width` is one, for the bias, and whose columns after it are zero."""
    buffer = like.new_zeros(num_samples, padded(width))
    buffer[:, width] = 1
    return buffer


class LinearPass:
    """One layer over B samples. Without `trains` it has no backward pass; the first layer has no `dx`."""

    def __init__(self, layer: FusedLinear, num_samples: int, *, trains: bool, needs_dx: bool) -> None:
        self.layer = layer
        num_in, num_out = layer.weight.value.shape
        like = layer.weight.value
        self._y = like.new_empty(num_samples, num_out)
        self._dx = like.new_empty(num_samples, num_in) if trains and needs_dx else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """relu(x W + b) [B, out] of x [B, in]; the result lives until the next call."""
        layer = self.layer
        self._x = x
        if layer.bias is None:
            y = multiply(x, layer.weight.value, self._y)
        else:
            y = add_product(layer.bias.value, x, layer.weight.value, self._y)
        self._result = y.relu_() if layer.has_relu else y
        return self._result

    def backward(self, dy: torch.Tensor) -> torch.Tensor | None:
        """Gradient of x [B, in] of that of the result [B, out]; leaves the weights' gradients with the layer."""
        layer = self.layer
        if layer.has_relu:
            torch.ops.aten.threshold_backward.grad_input(dy, self._result, 0, grad_input=dy)
        dx = None if self._dx is None else multiply(dy, layer.weight.value.t(), self._dx)
        multiply(self._x.t(), dy, layer.weight.gradient)
        if layer.bias is not None:
            torch.sum(dy, 0, out=layer.bias.gradient)
        return dx


def passes(layers: Sequence[FusedLinear], num_samples: int, *, trains: bool, needs_dx: bool) -> list[LinearPass]:
    """One pass per layer; `needs_dx` is about the first one, the others always do."""
    return [
        LinearPass(layer, num_samples, trains=trains, needs_dx=needs_dx or i > 0) for i, layer in enumerate(layers)
    ]
