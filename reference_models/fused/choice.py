"""Kernels chosen for the matrix products of a training step, by measurements on a CPU. Torch-free.

A choice is made once, by timing (`reference_models.fused.timing`), and is part of a run's configuration from then on:
with the same choice a run repeats bit for bit. Products that a choice does not list are torch.mm's.
"""

import hashlib
from collections.abc import Collection, Mapping
from typing import Annotated, Any, Literal, Protocol, runtime_checkable

import msgspec
from msgspec import Meta

from reference_models.process.errors import ConfigError

Kind = Literal["forward", "data_gradient", "weight_gradient"]
"""Kind of a matrix product of a linear layer: forward y = x W' + b, input gradient dx = dy W, weight gradient dW =
dy' x."""
Precision = Literal["fp32", "bf16"]
"""Precision of a product's operands."""
Form = Literal["mm", "mm_transposed", "mm_copied", "onednn", "onednn_transposed", "openblas"]
"""`mm`: torch.mm and its relatives (MKL in fp32, oneDNN in bf16). `onednn`: oneDNN's linear operator, which fuses
bias and ReLU. `openblas`: the OpenBLAS that numpy brings, called by compiled passes. `_transposed`: the transposed
result is computed, then copied. `_copied`: an operand is copied into rows first."""
DEFAULT_FORM: Form = "mm"
"""Form that can compute every product, in every type and on every device."""

_Size = Annotated[int, Meta(ge=1, le=2**40)]
_Name = Annotated[str, Meta(max_length=200)]


class _Value(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of the structs that are read from JSON files: typed, bounded, frozen."""


class MatmulProduct(_Value, frozen=True, kw_only=True):
    """One matrix product, with all properties that may decide which kernel computes it fastest."""

    kind: Kind
    num_samples: _Size
    num_in: _Size
    """Columns of the operand that is multiplied with the weight; columns of the result of a `weight_gradient`."""
    num_out: _Size
    """Columns of the result; rows of the result of a `weight_gradient`."""
    precision: Precision = "fp32"
    has_bias: bool = False
    has_relu: bool = False
    adds: bool = False
    """Whether the result is added to a tensor."""
    is_transposed: bool = False
    """Whether the weight [num_out, num_in] is stored by columns."""

    @property
    def label(self) -> str:
        """Return the product in a few words, such as "forward 2048 x 512 -> 256 + bias, ReLU"."""
        extras = [
            ("+ bias", self.has_bias),
            ("ReLU", self.has_relu),
            ("added", self.adds),
            ("weight by columns", self.is_transposed),
            (self.precision, self.precision != "fp32"),
        ]
        sizes = f"{self.kind.replace('_', ' ')} {self.num_samples} x {self.num_in} -> {self.num_out}"
        return ", ".join([sizes, *(text for text, applies in extras if applies)]).replace(", + ", " + ")

    @property
    def flop(self) -> int:
        """Number of multiplications and additions of the product."""
        return 2 * self.num_samples * self.num_in * self.num_out


class ChosenProduct(_Value, frozen=True, kw_only=True):
    """A product, the form that computes it, and the least seconds of every form that was tried."""

    product: MatmulProduct
    form: Form
    seconds: dict[Form, Annotated[float, Meta(ge=0, le=1e6)]] = {}

    def without(self, missing: Collection[Form]) -> Form:
        """Return the chosen form; where that form is `missing`, the fastest other timed form, else the default."""
        if self.form not in missing:
            return self.form
        return min(self.seconds.keys() - set(missing), key=self.seconds.__getitem__, default=DEFAULT_FORM)


class MatmulChoice(_Value, frozen=True, kw_only=True):
    """Chosen forms of a step's products, with the CPU, the threads and the torch that they were timed with."""

    num_threads: _Size
    precision: Precision
    torch_version: _Name
    cpu: _Name
    products: Annotated[tuple[ChosenProduct, ...], Meta(max_length=10_000)]

    @property
    def digest(self) -> str:
        """Return the sha256 of the products and their forms, whatever their order; their times are left out."""
        forms = sorted(
            msgspec.json.encode((chosen.product, chosen.form), order="deterministic") for chosen in self.products
        )
        return hashlib.sha256(b"\n".join(forms)).hexdigest()

    def forms(self, missing: Collection[Form] = ()) -> dict[MatmulProduct, Form]:
        """Return each product's form; where that form is `missing`, the fastest other timed form, else the
        default."""
        return {chosen.product: chosen.without(missing) for chosen in self.products}


@runtime_checkable
class ChoosesMatmul(Protocol):
    """Workload whose matrix products can be computed in several forms."""

    def choose_matmul(self, previous: MatmulChoice | None) -> MatmulChoice:
        """Time every product of the step, and of evaluation, in every form at hand; call it after `build`.

        The threads are those that torch has now. A form of `previous` is replaced only by one that is 5 % faster.
        Weights, optimizer, generators and what the workload computes afterwards are not changed.
        """

    def use_matmul(self, choice: MatmulChoice | None) -> None:
        """Compute products in the forms of `choice` from the next step on, as if the spec had held it."""


def convert_choice(content: Mapping[str, Any], place: str) -> MatmulChoice:
    """Read a choice from an untrusted JSON object; ConfigError names `place`, the member and what was expected."""
    try:
        choice = msgspec.convert(content, MatmulChoice)
    except (msgspec.ValidationError, UnicodeEncodeError, RecursionError) as error:
        raise ConfigError(f"{place} is no choice of matrix products: {error}.") from None
    seen: set[MatmulProduct] = set()
    for index, chosen in enumerate(choice.products):
        if chosen.product in seen:
            raise ConfigError(f"{place}: products[{index}]: {chosen.product.label} is listed twice, expected once.")
        if chosen.product.precision not in ("fp32", choice.precision):
            raise ConfigError(
                f"{place}: products[{index}] is of {chosen.product.precision}, expected fp32 or {choice.precision}, "
                "the choice's precision."
            )
        seen.add(chosen.product)
    return choice
