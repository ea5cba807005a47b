"""Linear layers, forward only, in the precisions of matrix products that inference uses.

- fp32: what `torch.nn.Linear` computes, by the same call, so that its bits are the same.
- bf16: weights, bias and inputs rounded to bfloat16; sums are float32 inside the product.
- int8: weights scaled per output, inputs per row, both by their largest magnitude over 127 and rounded to the nearest
  whole number; the product of the whole numbers is exact (`multiply_numbers`), then scaled back in float32.

A layer with one output gives the score. It stays in fp32 in every precision: it costs nothing, and rounded scores
would tie. So does a layer with one input, of which `torch._int_mm` makes nothing on CPUs: it takes the stride of a
dimension of size one at its word (pytorch#195066).
"""

from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Protocol

import torch

from reference_models.serving.weight_bytes import is_kept

LARGEST = 127
_EXACT = 1 << 10
"""Products of so many numbers of at most 127 sum up to less than 2^24: exact in float32, in whatever order."""
_TINY = torch.finfo(torch.float32).tiny
"""Scale of a row of zeros, which has none."""


class Linear(Protocol):
    """relu(x W' + b), or without the ReLU, or without the bias."""

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Compute float32, or in bf16 bfloat16, [B, out] of x [B, in]."""


@dataclass(frozen=True, slots=True)
class FloatLinear:
    """In the type of its weights; inputs are cast to it."""

    weight: torch.Tensor
    bias: torch.Tensor | None
    has_relu: bool

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.nn.functional.linear(x.to(self.weight.dtype), self.weight, self.bias)
        return y.relu_() if self.has_relu else y


@dataclass(frozen=True, slots=True)
class Int8Linear:
    """Whole numbers and their scales; `weight` is int8 [in, out], a transposed view."""

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
    """Compute a b, int32 or float32 [B, out], of int8 numbers [B, in] and [in, out] of at most 127, exactly."""
    if is_int_mm_exact():
        return torch._int_mm(a, b)
    pieces = zip(torch.split(a, _EXACT, 1), torch.split(b, _EXACT), strict=True)
    sums = [torch.mm(left.float(), right.float()) for left, right in pieces]
    return sums[0] if len(sums) == 1 else torch.stack([each.int() for each in sums]).sum(0, dtype=torch.int32)


@cache
def is_int_mm_exact() -> bool:
    """Say whether `torch._int_mm` is, on this CPU, by the greatest sums that there are.

    Without products of 8 bits (AVX-512's VNNI, on x86) oneDNN adds pairs in 16 bits, which saturate.
    """
    for num_samples, sign in product((1, 32), (1, -1)):
        a, b = (torch.full(size, LARGEST, dtype=torch.int8) for size in ((num_samples, 64), (32, 64)))
        if not torch._int_mm(a, (b * sign).t()).eq(sign * LARGEST**2 * 64).all():
            return False
    return True


def quantise_rows(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return int8 [B, in] and scales float32 [B, 1] of x float32: x is numbers * scale to half a scale."""
    scale = x.abs().amax(1, keepdim=True).div_(LARGEST).clamp_(min=_TINY)
    rounded = torch.div(x, scale).round_()
    # With the strides of fresh memory, also where x is one row of any stride: see above.
    return rounded.to(torch.int8, memory_format=torch.contiguous_format), scale


def make_linear(weight: torch.Tensor, bias: torch.Tensor | None, precision: str, *, has_relu: bool = False) -> Linear:
    """Make a layer of weight float32 [out, in] and bias [out]. Under tf32 weights stay float32: it is a mode."""
    weight, bias = weight.detach().contiguous(), None if bias is None else bias.detach()
    if is_kept(weight.shape[1], weight.shape[0], precision):
        return FloatLinear(weight, bias, has_relu)
    if precision == "bf16":
        return FloatLinear(weight.bfloat16(), None if bias is None else bias.bfloat16(), has_relu)
    numbers, scale = quantise_rows(weight)
    return Int8Linear(numbers.t(), scale.squeeze(1), bias, has_relu)
