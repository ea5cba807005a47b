"""Choice of a kernel for each matrix product of a training step, made by timing the kernels on a CPU. Torch-free.

A choice is made once, by timing (`reference_models.fused.timing`), and is part of a run's configuration from then on:
with the same choice a run repeats bit for bit. Products that a choice does not list are computed by torch.mm.
"""

import hashlib
from collections.abc import Collection, Mapping
from typing import Annotated, Any, Literal, Protocol, runtime_checkable

import msgspec
from msgspec import Meta

from reference_models.process.errors import ConfigError

Kind = Literal["forward", "data_gradient", "weight_gradient"]
"""Kind of matrix product in the training of a linear layer: forward y = x W' + b, input gradient dx = dy W, weight
gradient dW = dy' x."""
Precision = Literal["fp32", "bf16"]
"""Precision of the operands of a matrix product."""
Form = Literal["mm", "mm_transposed", "mm_copied", "onednn", "onednn_transposed", "openblas"]
"""Form of a matrix product: the kernel that computes the product. `mm`: torch.mm (MKL in fp32, oneDNN in bf16).
`onednn`: oneDNN's linear operator, which fuses bias and ReLU. `openblas`: the OpenBLAS that comes with numpy, called
by this package's compiled C functions. With `_transposed` the transposed result is computed, then copied; with
`_copied` an operand is first copied, so that its rows are contiguous."""
DEFAULT_FORM: Form = "mm"
"""Default form (kernel) of matrix products, which can compute every product, in every type and on every device."""

_Size = Annotated[int, Meta(ge=1, le=2**40)]
_Name = Annotated[str, Meta(max_length=200)]


class _Value(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of the structs that store a choice of kernels for matrix products in JSON files: immutable, with unknown
    members refused."""


class MatmulProduct(_Value, frozen=True, kw_only=True):
    """Matrix product of a training step, with all properties that may decide which kernel computes the product
    fastest."""

    kind: Kind
    num_samples: _Size
    num_in: _Size
    """Columns of the operand that is multiplied with the weight; for a `weight_gradient` columns of the result."""
    num_out: _Size
    """Columns of the matrix product's result; for a `weight_gradient` rows of the result."""
    precision: Precision = "fp32"
    has_bias: bool = False
    has_relu: bool = False
    adds: bool = False
    """Whether the matrix product's result is added to an existing tensor."""
    is_transposed: bool = False
    """Whether the product's weight [num_out, num_in] is stored by columns."""

    @property
    def label(self) -> str:
        """Return the matrix product in a few words, such as "forward 2048 x 512 -> 256 + bias, ReLU"."""
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
        """Number of multiplications and additions of the matrix product."""
        return 2 * self.num_samples * self.num_in * self.num_out


class ChosenProduct(_Value, frozen=True, kw_only=True):
    """Matrix product, the form (kernel) chosen for it, and the seconds of a call by each form that was timed, the
    least of several timings."""

    product: MatmulProduct
    form: Form
    seconds: dict[Form, Annotated[float, Meta(ge=0, le=1e6)]] = {}

    def without(self, missing: Collection[Form]) -> Form:
        """Return the form (kernel) to use for the product on a machine that lacks the forms `missing`.

        This is the chosen form, if the machine has it. Else it is the fastest form that was timed and that the
        machine has, or torch.mm if there is none.
        """
        if self.form not in missing:
            return self.form
        return min(self.seconds.keys() - set(missing), key=self.seconds.__getitem__, default=DEFAULT_FORM)


class MatmulChoice(_Value, frozen=True, kw_only=True):
    """Forms (kernels) chosen for a step's matrix products, and the CPU, number of threads and torch version of the
    timings."""

    num_threads: _Size
    precision: Precision
    torch_version: _Name
    cpu: _Name
    products: Annotated[tuple[ChosenProduct, ...], Meta(max_length=10_000)]

    @property
    def digest(self) -> str:
        """Return a sha256 that identifies which form (kernel) was chosen for each matrix product, whatever the order
        of the products and whatever was timed."""
        forms = sorted(
            msgspec.json.encode((chosen.product, chosen.form), order="deterministic") for chosen in self.products
        )
        return hashlib.sha256(b"\n".join(forms)).hexdigest()

    def forms(self, missing: Collection[Form] = ()) -> dict[MatmulProduct, Form]:
        """Return the chosen form (kernel) of each matrix product.

        A chosen form that is among `missing`, the forms that this machine lacks, is replaced by the fastest other
        form that was timed, else by torch.mm.
        """
        return {chosen.product: chosen.without(missing) for chosen in self.products}


@runtime_checkable
class ChoosesMatmul(Protocol):
    """Protocol of a workload whose matrix products can each be computed by several kernels (forms), chosen by
    timing."""

    def choose_matmul(self, previous: MatmulChoice | None) -> MatmulChoice:
        """Time every matrix product of training step and evaluation by every available kernel (form), and return the
        fastest kernels; call it after `build`.

        Timings use torch's present number of threads. `previous` is an earlier choice: its forms are replaced only by
        forms that are 5 % faster. Timing changes neither the weights, the optimizer and the generators, nor what the
        workload computes afterwards.
        """

    def use_matmul(self, choice: MatmulChoice | None) -> None:
        """Compute matrix products by the kernels (forms) of `choice` from the next step on, as if the run's
        definition had named this choice."""


def convert_choice(content: Mapping[str, Any], place: str) -> MatmulChoice:
    """Convert an untrusted JSON object to a choice of kernels for matrix products.

    Raises ConfigError that names `place` (where the object is from), the wrong member and what was expected.
    """
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
