"""Fully connected layers with hand-written forward and backward passes.

A pass over B samples is a `LinearPass`: it has buffers of its own, and shares the layer's weights with passes of
other batch sizes. Gradients that are passed in are overwritten.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import nn

from reference_models.fused.dense_parameters import Apply, DenseParameter, adopt_linear, padded
from reference_models.fused.matmul import Matmuls


@dataclass(frozen=True, slots=True)
class FusedLinear:
    """Weights of a fully connected layer: [out, in] and bias [out], or [out, padded in] with the bias as a column."""

    weight: DenseParameter
    bias: DenseParameter | None
    has_relu: bool


def fuse_mlp(
    mlp: nn.Sequential, optimizer: torch.optim.Optimizer, matmuls: Matmuls, *, pads_input: bool
) -> list[FusedLinear]:
    """Take over the weights of an MLP made by `layers.build_mlp`, for hand-written passes.

    With `pads_input` the first layer takes inputs with additional columns: a one for the bias, and padding.
    """
    modules: list[nn.Module | None] = [*mlp, None]
    return [
        FusedLinear(
            *adopt_linear(
                module,
                optimizer,
                pads=pads_input and not i,
                # Logits have the weights' type: in eight bits of precision, different samples would get equal logits.
                dtype=None if module.out_features == 1 else matmuls.dtype,
            ),
            isinstance(after, nn.ReLU),
        )
        for i, (module, after) in enumerate(pairwise(modules))
        if isinstance(module, nn.Linear)
    ]


def padded_input(like: torch.Tensor, num_samples: int, width: int) -> torch.Tensor:
    """Return an input buffer [B, padded(width)] whose column `width` is one, for the bias; later columns are zero."""
    buffer = like.new_zeros(num_samples, padded(width))
    buffer[:, width] = 1
    return buffer


class LinearPass:
    """Forward and backward pass of a fully connected layer over B samples; without `needs_dx` the input gets no
    gradient.

    Where the weights' type differs from the input's, the pass casts the input, and casts its gradient back.
    """

    def __init__(
        self, layer: FusedLinear, num_samples: int, matmuls: Matmuls, *, trains: bool, needs_dx: bool
    ) -> None:
        self._layer, self._trains, self._cpu_kernels = layer, trains, matmuls.kernels_of(layer.weight.operand)
        weight, bias = layer.weight.operand, None if layer.bias is None else layer.bias.operand
        self._forward = matmuls.affine("forward", num_samples, weight, bias, has_relu=layer.has_relu)
        self._weight_gradient = matmuls.weight_gradient(num_samples, weight) if trains else None
        needs_dx = trains and needs_dx
        self._backward = matmuls.affine("data_gradient", num_samples, weight.t()) if needs_dx else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the layer's output [B, out] for x [B, in]: x W' + b, after ReLU if the layer has one; the next call
        overwrites it."""
        dtype, x = x.dtype, x.to(self._layer.weight.operand.dtype)
        y = self._forward(x)
        if self._trains:
            self._dtype, self._x, self._y = dtype, x, y
        return y

    def backward(self, dy: torch.Tensor, apply: Apply) -> torch.Tensor | None:
        """Return the gradient of the layer's input x [B, in], given dy [B, out]; pass the gradients of the layer's
        weights to `apply`. Without `needs_dx` the result is None."""
        assert self._weight_gradient is not None
        layer = self._layer
        dbias = self._differentiate_relu(dy)
        del self._y  # its memory may be used from here on, as the input's at the end
        dx = None if self._backward is None else self._backward(dy).to(self._dtype)
        apply(layer.weight, self._weight_gradient(dy, self._x))
        del self._x
        if layer.bias is not None:
            apply(layer.bias, dy.sum(0) if dbias is None else dbias)
        return dx

    def _differentiate_relu(self, dy: torch.Tensor) -> torch.Tensor | None:
        """Turn `dy`, the gradient of the layer's output, into the gradient of ReLU's argument, in place; leave `dy`
        as it is if the layer has no ReLU.

        Returns the bias's gradient [out] if a compiled function computes it in the same pass over `dy`, else None.
        """
        layer = self._layer
        if self._cpu_kernels is not None and dy.shape[1] > 1 and dy.is_contiguous() and self._y.is_contiguous():
            y = self._y if layer.has_relu else None
            return self._cpu_kernels.differentiate_relu(dy, y, sums=layer.bias is not None)
        if layer.has_relu:
            zero_where_not_positive(dy, self._y)
        return None


def zero_where_not_positive(dy: torch.Tensor, y: torch.Tensor) -> None:
    """Turn `dy`, the gradient of ReLU's result y, into the gradient of ReLU's argument, in place."""
    torch.ops.aten.threshold_backward.grad_input(dy, y, 0, grad_input=dy)


def passes(
    layers: Sequence[FusedLinear], num_samples: int, matmuls: Matmuls, *, trains: bool, needs_dx: bool
) -> list[LinearPass]:
    """Return a forward and backward pass for each layer; the first layer's input gets a gradient only with
    `needs_dx`."""
    return [
        LinearPass(layer, num_samples, matmuls, trains=trains, needs_dx=needs_dx or i > 0)
        for i, layer in enumerate(layers)
    ]
