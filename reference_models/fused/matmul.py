"""Matrix products of a training step: of each size, the kernel that was measured to be the faster one.

On CPUs with AVX-512, oneDNN's kernels reach 200 to 215 GFLOP/s on two cores for activations and for large weights'
gradients, where torch.mm (MKL) reaches 180 to 195; below, and for narrow layers, torch.mm wins. The choice depends
on sizes alone, so runs repeat bit for bit. Other types, CPUs and devices use torch.mm.
"""

from typing import Any

import torch

_MIN_WIDTH = 64
"""Narrowest layer, on both sides, whose activations oneDNN computes faster."""
_MIN_WEIGHTS = 1 << 20
"""Fewest weights whose gradient oneDNN computes faster."""


def has_onednn(like: torch.Tensor) -> bool:
    """Say whether tensors like this one can go to oneDNN, and should."""
    return (
        like.device.type == "cpu"
        and like.dtype == torch.float32
        and torch.backends.cpu.get_cpu_capability().startswith("AVX512")
        and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    )


class Affine:
    """x W' + b, then perhaps ReLU, of x [num_samples, in], W [out, in] of any strides and b [out] or None.

    A result lives until the next call.
    """

    def __init__(
        self, num_samples: int, weight: torch.Tensor, bias: torch.Tensor | None = None, *, has_relu: bool = False
    ) -> None:
        self._weight, self._bias, self._has_relu = weight, bias, has_relu
        self._onednn = min(weight.shape) >= _MIN_WIDTH and has_onednn(weight)
        self._out = weight.new_empty(0 if self._onednn else num_samples, len(weight))

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        if self._onednn:
            activation = "relu" if self._has_relu else "none"
            y: torch.Tensor = _onednn()(x, self._weight, self._bias, activation, [], "")
            return y
        if self._bias is None:
            torch.mm(x, self._weight.t(), out=self._out)
        else:
            torch.addmm(self._bias, x, self._weight.t(), out=self._out)
        return self._out.relu_() if self._has_relu else self._out

    def add_to(self, total: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """Compute total + x W'; `total` may be overwritten. Without bias and ReLU."""
        if self._onednn:
            y: torch.Tensor = _onednn().binary(x, total, self._weight, None, "add")
            return y
        return total.addmm_(x, self._weight.t())


class WeightGradient:
    """dy' x [out, in] of dy [num_samples, out] and x [num_samples, in]; a result lives until the next call."""

    def __init__(self, weight: torch.Tensor) -> None:
        self._onednn = weight.numel() >= _MIN_WEIGHTS and has_onednn(weight)
        self._out = weight.new_empty(0 if self._onednn else weight.shape[0], weight.shape[1])

    def __call__(self, dy: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        if self._onednn:
            gradient: torch.Tensor = _onednn()(dy.t(), x.t(), None, "none", [], "")
            return gradient
        return torch.mm(dy.t(), x, out=self._out)


def _onednn() -> Any:
    """Look up x W' + b with what follows it fused in; the operator that torch.compile uses."""
    return torch.ops.mkldnn._linear_pointwise
