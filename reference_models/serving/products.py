"""Linear layers, forward only, in the precisions of matrix products that inference uses.

- fp32: the call of `torch.nn.Linear`, so that results are equal bit for bit.
- bf16: weights, bias and inputs rounded to bfloat16; sums are float32 inside the product.
- int8: weights and inputs are divided by a scale and rounded to the nearest whole number. Weights have a scale per
  output, inputs a scale per row: their largest magnitude, divided by 127. The product of the whole numbers is exact
  (`multiply_numbers`), and is scaled back in float32.

Two kinds of layers stay in fp32 in every precision. A layer with one output returns the score: its time is
negligible, and rounded scores would tie. For a layer with one input, the results of `torch._int_mm` on CPUs are
wrong, since the operator relies on the stride of a dimension of size one (pytorch#195066).
"""

from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Protocol

import torch

from reference_models.serving.weight_bytes import is_kept

LARGEST = 127
_EXACT = 1 << 10
"""Maximum number of terms of an exact sum in float32: the sum of that many products of two numbers of at most 127 is
below 2^24."""
_TINY = torch.finfo(torch.float32).tiny
"""Scale of an int8 row whose values are all zero: the smallest normal float32, to avoid a division by zero."""


class ServedLinear(Protocol):
    """Layer of a model that answers queries: relu(x W' + b), with or without ReLU and bias."""

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Return the layer's output [B, out] of x [B, in]: float32, or bfloat16 in bf16."""


@dataclass(frozen=True, slots=True)
class FloatLinear:
    """Layer that computes in the floating type of its weights, to which inputs are cast."""

    weight: torch.Tensor
    bias: torch.Tensor | None
    has_relu: bool

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.nn.functional.linear(x.to(self.weight.dtype), self.weight, self.bias)
        return y.relu_() if self.has_relu else y


@dataclass(frozen=True, slots=True)
class Int8Linear:
    """Layer with int8 weights and their scales; `weight` is int8 [in, out], a transposed view."""

    weight: torch.Tensor
    scale: torch.Tensor
    bias: torch.Tensor | None
    has_relu: bool

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        numbers, scale = quantise_rows(x)
        y = multiply_numbers(numbers, self.weight).float().mul_(scale)
        y = y.mul_(self.scale) if self.bias is None else torch.addcmul(self.bias, y, self.scale)
        return y.relu_() if self.has_relu else y


def multiply_numbers(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return the exact product [B, out], int32 or float32, of int8 matrices [B, in] and [in, out], whose values are
    at most 127 in magnitude."""
    if is_int_mm_exact():
        return torch._int_mm(a, b)
    pieces = zip(torch.split(a, _EXACT, 1), torch.split(b, _EXACT), strict=True)
    sums = [torch.mm(left.float(), right.float()) for left, right in pieces]
    return sums[0] if len(sums) == 1 else torch.stack([each.int() for each in sums]).sum(0, dtype=torch.int32)


@cache
def is_int_mm_exact() -> bool:
    """Return whether `torch._int_mm` is exact on this CPU, tested by the largest possible sums.

    Without 8-bit products (on x86 AVX-512's VNNI) oneDNN adds pairs in 16 bits, which saturate.
    """
    for num_samples, sign in product((1, 32), (1, -1)):
        a, b = (torch.full(size, LARGEST, dtype=torch.int8) for size in ((num_samples, 64), (32, 64)))
        if not torch._int_mm(a, (b * sign).t()).eq(sign * LARGEST**2 * 64).all():
            return False
    return True


def quantise_rows(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantise the rows of float32 x [B, in]: int8 numbers [B, in] and float32 scales [B, 1].

    An int8 number times its row's scale differs from the value in x by at most half the scale.
    """
    scale = x.abs().amax(1, keepdim=True).div_(LARGEST).clamp_(min=_TINY)
    rounded = torch.div(x, scale).round_()
    # Contiguous, also where x is one row of any stride: see the module's docstring.
    return rounded.to(torch.int8, memory_format=torch.contiguous_format), scale


def make_linear(
    weight: torch.Tensor, bias: torch.Tensor | None, precision: str, *, has_relu: bool = False
) -> ServedLinear:
    """Return a linear layer with weights float32 [out, in] and bias [out] that computes in `precision`, to answer
    queries.

    With tf32, which is a mode of the device, weights stay float32.
    """
    weight, bias = weight.detach().contiguous(), None if bias is None else bias.detach()
    if is_kept(weight.shape[1], weight.shape[0], precision):
        return FloatLinear(weight, bias, has_relu)
    if precision == "bf16":
        return FloatLinear(weight.bfloat16(), None if bias is None else bias.bfloat16(), has_relu)
    numbers, scale = quantise_rows(weight)
    return Int8Linear(numbers.t(), scale.squeeze(1), bias, has_relu)
