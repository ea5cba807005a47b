"""Matrix products of a training step, each computed by the kernel (form) chosen for it: see
`reference_models.fused.choice`."""

from typing import Any, get_args

import torch

from reference_models.fused.choice import DEFAULT_FORM, Form, Kind, MatmulChoice, MatmulProduct, Precision
from reference_models.fused.cpu_kernels import CPUKernels

_PRECISIONS: dict[torch.dtype, Precision] = {torch.float32: "fp32", torch.bfloat16: "bf16"}


class Matmuls:
    """Maker of a model's matrix products, in a given type of operands and by chosen kernels (forms).

    `asked` records the products that were made, with their forms.
    """

    def __init__(
        self,
        choice: MatmulChoice | None = None,
        *,
        dtype: torch.dtype | None = None,
        keeps_results: bool = True,
        has_kernels: bool = False,
        cpu_kernels: CPUKernels | None = None,
    ) -> None:
        """Store which kernel computes each matrix product (None: torch.mm for all) and the type of operands (None:
        the weights').

        With `keeps_results`, each product keeps its own memory for its result over all steps, which saves page faults
        on a CPU. Without it, torch's allocator supplies the memory. The work around the products is done by Triton's
        kernels if `has_kernels` (`reference_models.fused.kernel_check`), on a CPU by the compiled `cpu_kernels` if
        given, and else by torch's operators.
        """
        self.dtype, self.keeps_results, self.has_kernels = dtype, keeps_results, has_kernels
        self.cpu_kernels = cpu_kernels
        not_at_hand = {form for form in get_args(Form) if not is_at_hand(form, cpu_kernels)}
        chosen = set() if choice is None else {each.form for each in choice.products}
        self.missing = tuple(sorted(chosen & not_at_hand))
        """Chosen forms (kernels) that this machine lacks; instead the fastest other form that was timed is used, or
        torch.mm."""
        self._forms = {} if choice is None else choice.forms(not_at_hand)
        self.asked: dict[MatmulProduct, Form] = {}
        """Form (kernel) of each matrix product that was made, by product, in the order in which products were
        made."""

    def affine(
        self,
        kind: Kind,
        num_samples: int,
        weight: torch.Tensor,
        bias: torch.Tensor | None = None,
        *,
        has_relu: bool = False,
        adds: bool = False,
    ) -> "Affine":
        """Return the function that multiplies inputs by `weight` [out, in] of any strides. The function keeps memory
        for its result, unless the product `adds` to a given tensor."""
        form = self._form_of(kind, num_samples, weight, has_bias=bias is not None, has_relu=has_relu, adds=adds)
        keeps = self.keeps_results and not adds
        return Affine(
            form, num_samples, weight, bias, has_relu=has_relu, keeps=keeps, cpu_kernels=self.kernels_of(weight)
        )

    def weight_gradient(self, num_samples: int, weight: torch.Tensor) -> "WeightGradient":
        """Return the function that computes the gradient of `weight` [out, in] as a matrix product."""
        form = self._form_of("weight_gradient", num_samples, weight)
        kernels = self.kernels_of(weight)
        return WeightGradient(form, num_samples, weight, keeps=self.keeps_results, cpu_kernels=kernels)

    def kernels_of(self, weight: torch.Tensor) -> CPUKernels | None:
        """Return the compiled functions for the work around products with `weight`; None for a weight that is not
        float32 on a CPU, or if none are compiled."""
        return self.cpu_kernels if weight.dtype == torch.float32 and weight.device.type == "cpu" else None

    def _form_of(self, kind: Kind, num_samples: int, weight: torch.Tensor, **details: bool) -> Form:
        """Return the chosen form (kernel) of a product with `weight` [num_out, num_in] of any strides, or of its
        gradient."""
        if weight.device.type != "cpu" or weight.dtype not in _PRECISIONS:
            return DEFAULT_FORM
        num_out, num_in = weight.shape
        product = MatmulProduct(
            kind=kind,
            num_samples=num_samples,
            num_in=num_in,
            num_out=num_out,
            precision=_PRECISIONS[weight.dtype],
            is_transposed=not weight.is_contiguous(),
            **details,
        )
        return self.asked.setdefault(product, self._forms.get(product, DEFAULT_FORM))


def forms_at_hand(product: MatmulProduct, cpu_kernels: CPUKernels | None = None) -> tuple[Form, ...]:
    """Return the forms (kernels) of a matrix product that this torch, or the compiled functions, can compute."""
    forms: list[Form] = ["mm", "onednn"]
    if product.kind == "weight_gradient":
        forms += ["mm_transposed", "onednn_transposed"]
        if product.precision == "bf16":
            forms.append("mm_copied")
    if product.precision == "fp32":
        forms.append("openblas")
    return tuple(form for form in forms if is_at_hand(form, cpu_kernels))


def is_at_hand(form: Form, cpu_kernels: CPUKernels | None) -> bool:
    """Return whether the form (kernel) `form` of matrix products can be computed by this torch, or by the compiled
    functions."""
    if form == "openblas":
        return cpu_kernels is not None and cpu_kernels.has_openblas
    return has_onednn() or not form.startswith("onednn")


def has_onednn() -> bool:
    """Return whether this torch has oneDNN's linear operator, one of the kernels for matrix products."""
    available: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return available and hasattr(torch.ops.mkldnn, "_linear_pointwise")


class Affine:
    """Function that computes the product x W' + b of a layer, with or without ReLU: x [num_samples, in], W [out, in]
    of any strides, b [out] or None.

    With `keeps`, the memory of the result is allocated beforehand. The next call may overwrite a result.
    """

    def __init__(
        self, form: Form, num_samples: int, weight: torch.Tensor, bias: torch.Tensor | None = None, *,
        has_relu: bool = False, keeps: bool = True, cpu_kernels: CPUKernels | None = None,
    ) -> None:  # fmt: skip
        self._weight, self._bias, self._has_relu, self._cpu_kernels = weight, bias, has_relu, cpu_kernels
        self._is_onednn, self._is_openblas = form.startswith("onednn"), form == "openblas"
        self._out = weight.new_empty(0 if self._is_onednn else num_samples, len(weight)) if keeps else None

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        if self._is_onednn:
            activation = "relu" if self._has_relu else "none"
            y: torch.Tensor = _onednn_linear()(x, self._weight, self._bias, activation, [], "")
            return y
        if self._bias is None or self._cpu_kernels is not None:
            y = self._multiply(x)
            if self._bias is not None and self._cpu_kernels is not None:
                return self._cpu_kernels.add_bias(y, self._bias, has_relu=self._has_relu)
        elif self._has_relu and self._out is None:
            # A single kernel on CUDA, where the libraries fuse it.
            return torch._addmm_activation(self._bias, x, self._weight.t(), use_gelu=False)
        else:
            y = torch.addmm(self._bias, x, self._weight.t(), out=self._out)
        return y.relu_() if self._has_relu else y

    def _multiply(self, x: torch.Tensor) -> torch.Tensor:
        if not self._is_openblas:
            return torch.mm(x, self._weight.t(), out=self._out)
        assert self._cpu_kernels is not None, "there where the form is"
        out = x.new_empty(len(x), len(self._weight)) if self._out is None else self._out
        return self._cpu_kernels.multiply(x, self._weight.t(), out)

    def add_to(self, total: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """Return total + x W', without bias and ReLU; the tensor `total` may be overwritten by the result."""
        if self._is_onednn:
            y: torch.Tensor = _onednn_linear().binary(x, total, self._weight, None, "add")
            return y
        if self._is_openblas and self._cpu_kernels is not None:
            return self._cpu_kernels.multiply(x, self._weight.t(), total.contiguous(), adds=True)
        return total.addmm_(x, self._weight.t())


class WeightGradient:
    """Function that computes the weight gradient dy' x [out, in] of dy [num_samples, out] and x [num_samples, in];
    the next call overwrites the result.

    With `keeps` the result's memory is allocated beforehand.
    """

    def __init__(
        self,
        form: Form,
        num_samples: int,
        weight: torch.Tensor,
        *,
        keeps: bool = True,
        cpu_kernels: CPUKernels | None = None,
    ) -> None:
        self._form, self._cpu_kernels = form, cpu_kernels
        num_out, num_in = weight.shape
        self._out = weight.new_empty(0 if form == "onednn" else num_out, num_in) if keeps or form != "mm" else None
        self._transposed = weight.new_empty(num_in, num_out if form == "mm_transposed" else 0)
        self._rows = weight.new_empty(num_out, num_samples if form == "mm_copied" else 0)

    def __call__(self, dy: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        match self._form:
            case "mm":
                return torch.mm(dy.t(), x, out=self._out)
            case "mm_transposed":
                return self._copied(torch.mm(x.t(), dy, out=self._transposed))
            case "mm_copied":
                return torch.mm(self._rows.copy_(dy.t()), x, out=self._out)
            case "onednn":
                gradient: torch.Tensor = _onednn_linear()(dy.t(), x.t(), None, "none", [], "")
                return gradient
            case "openblas":
                assert self._cpu_kernels is not None and self._out is not None, "there where the form is"
                return self._cpu_kernels.multiply(dy.t(), x, self._out)
            case "onednn_transposed":
                return self._copied(_onednn_linear()(x.t(), dy.t(), None, "none", [], ""))

    def _copied(self, transposed: torch.Tensor) -> torch.Tensor:
        assert self._out is not None
        return self._out.copy_(transposed.t())


def _onednn_linear() -> Any:
    """Return torch's oneDNN operator that computes x W' + b with a fused activation, which torch.compile uses,
    too."""
    return torch.ops.mkldnn._linear_pointwise
