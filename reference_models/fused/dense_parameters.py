"""Dense weights for hand-written passes: laid out for speed, and each updated while its gradient is in the cache.

The model's module and the optimizer hold views of these weights, so that the `state_dict` of both equals that of the
reference implementation.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import nn

from reference_models.fused.cpu_kernels import CPUKernels

PADDING = 16
"""Number to whose multiples the inner dimensions of matrix products are padded, since some libraries are slow at odd
leading dimensions. The values 1, 8, 16 and 32 were compared by the time of a training step. On an AMD EPYC (family 25
model 1) they were within 2 % of one another, in `dlrm_small` and in the DLRM paper's configuration. On an Intel Xeon
(family 6 model 207), in the paper's configuration, 32 took 2 % longer, and 8 gave the same widths as 16."""


@dataclass(frozen=True, slots=True)
class DenseParameter:
    """Dense weight and, with Adagrad, the sum of its squared gradients, both of one shape and contiguous.

    Where matrix products are of a narrower type, `narrow` is a copy of the weight in that type, written with every
    update.
    """

    value: torch.Tensor
    squares: torch.Tensor | None
    narrow: torch.Tensor | None = None

    @property
    def operand(self) -> torch.Tensor:
        """Weight as matrix products read it: the copy `narrow` in their type if there is one, else the float32
        weight."""
        return self.value if self.narrow is None else self.narrow

    def update(self, gradient: torch.Tensor, lr: float, eps: float, cpu_kernels: CPUKernels | None = None) -> None:
        """Update the weight by Adagrad: squares += g^2, value -= lr * g / (sqrt(squares) + eps); or by SGD: value -=
        lr * g.

        The gradient may be of the narrower type; sums and weight are not.
        """
        gradient = gradient.to(self.value.dtype)
        if self.squares is None:
            self.value.add_(gradient, alpha=-lr)
        elif cpu_kernels is not None and gradient.is_contiguous():
            cpu_kernels.adagrad(self.value, self.squares, gradient, lr, eps)
        else:
            torch._fused_adagrad_(
                [self.value], [gradient], [self.squares], [_FIRST_STEP], lr=lr, lr_decay=0.0, weight_decay=0.0,
                eps=eps, maximize=False,
            )  # fmt: skip
        self.write_narrow()

    def write_narrow(self) -> None:
        """Copy the weight to `narrow`, in the narrower type of matrix products, once for all products that read
        it."""
        if self.narrow is not None:
            self.narrow.copy_(self.value)


Apply = Callable[[DenseParameter, torch.Tensor], None]
"""Type of functions that the backward pass calls with a weight and its gradient, after the last use of that
weight."""

Gradient = tuple[DenseParameter, torch.Tensor]
"""Dense weight and the gradient that a backward pass computed for it."""


def update_together(gradients: Sequence[Gradient], lr: torch.Tensor, eps: float) -> None:
    """Update all dense weights of an optimizer together, by a few operators; the results are as from
    `DenseParameter.update`, which updates one weight.

    The learning rate is in a tensor, so that it may change after the operators were captured in a CUDA graph.
    Gradients may be overwritten.
    """
    values = [parameter.value for parameter, _ in gradients]
    steps, widened = [], []
    for parameter, gradient in gradients:
        is_narrow = gradient.dtype != parameter.value.dtype
        steps.append(torch.empty_like(parameter.value) if is_narrow else gradient)
        widened += [(steps[-1], gradient)] if is_narrow else []
    if widened:
        torch._foreach_copy_([wide for wide, _ in widened], [gradient for _, gradient in widened])
    squares = [parameter.squares for parameter, _ in gradients if parameter.squares is not None]
    if squares:
        torch._foreach_addcmul_(squares, steps, steps)
        roots = torch._foreach_sqrt(squares)
        torch._foreach_add_(roots, eps)
        torch._foreach_div_(steps, roots)
    torch._foreach_mul_(steps, lr)
    torch._foreach_sub_(values, steps)
    kept = [(parameter.narrow, parameter.value) for parameter, _ in gradients if parameter.narrow is not None]
    if kept:
        torch._foreach_copy_([narrow for narrow, _ in kept], [value for _, value in kept])


_FIRST_STEP = torch.ones(())
"""Step number passed to torch's fused Adagrad, which needs it only for a learning rate decay; there is none here."""


def adopt_linear(
    linear: nn.Linear, optimizer: torch.optim.Optimizer, *, pads: bool, dtype: torch.dtype | None = None
) -> tuple[DenseParameter, DenseParameter | None]:
    """Take over a linear layer's weight [out, in] and bias for hand-written passes; return them as dense parameters.

    With `pads` both become one weight [out, padded in] with the bias as the column after the weight's own. If inputs
    hold a one in this column, the matrix products add the bias and compute its gradient, too. Matrix products are
    computed in `dtype`; by default in the weight's type.
    """
    if not pads:
        return adopt(linear.weight, optimizer, dtype=dtype), adopt(linear.bias, optimizer, dtype=dtype)
    num_in, num_out = linear.in_features, linear.out_features
    parameter = _allocate((num_out, padded(num_in)), linear.weight, optimizer, dtype)
    _move(linear.weight, parameter, optimizer, lambda storage: storage[:, :num_in])
    _move(linear.bias, parameter, optimizer, lambda storage: storage[:, num_in])
    parameter.write_narrow()
    return parameter, None


def adopt(
    weight: torch.Tensor,
    optimizer: torch.optim.Optimizer,
    *,
    transposes: bool = False,
    dtype: torch.dtype | None = None,
) -> DenseParameter:
    """Return a module's weight, and its optimizer's state, as a dense parameter of hand-written passes. With
    `transposes` a weight [out, in] is stored anew as [in, out]. Matrix products are computed in `dtype`, if it is
    given."""
    if transposes:
        parameter = _allocate(tuple(weight.t().shape), weight, optimizer, dtype)
        _move(weight, parameter, optimizer, torch.Tensor.t)
    else:
        squares = optimizer.state.get(weight, {}).get("sum")
        parameter = DenseParameter(weight.data, squares, _allocate_narrow(weight.data, dtype))
    parameter.write_narrow()
    return parameter


def adopt_stacked(weights: Sequence[torch.Tensor], optimizer: torch.optim.Optimizer) -> DenseParameter:
    """Take over the weights [out_i, in] of layers with the same input, stacked to one weight [sum of out_i, in], so
    that one product computes all of these layers."""
    num_rows, num_in = sum(len(weight) for weight in weights), weights[0].shape[1]
    parameter = _allocate((num_rows, num_in), weights[0], optimizer, None)
    start = 0
    for weight in weights:
        _move(weight, parameter, optimizer, partial(torch.narrow, dim=0, start=start, length=len(weight)))
        start += len(weight)
    return parameter


def padded(width: int) -> int:
    """Round `width` up to the next multiple of PADDING that leaves at least one column for the bias."""
    return (width // PADDING + 1) * PADDING


def _allocate(
    shape: tuple[int, ...], like: torch.Tensor, optimizer: torch.optim.Optimizer, dtype: torch.dtype | None
) -> DenseParameter:
    # Padding has no gradient; sums of one keep its update 0 / 1 whatever epsilon is.
    squares = like.new_ones(shape) if "sum" in optimizer.state.get(like, {}) else None
    value = like.detach().new_zeros(shape)
    return DenseParameter(value, squares, _allocate_narrow(value, dtype))


def _allocate_narrow(value: torch.Tensor, dtype: torch.dtype | None) -> torch.Tensor | None:
    return None if dtype in (None, value.dtype) else torch.empty_like(value, dtype=dtype)


def _move(
    source: torch.Tensor,
    parameter: DenseParameter,
    optimizer: torch.optim.Optimizer,
    view: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    """Copy a weight and its optimizer state into the storage of `parameter`, and make the originals views of that
    storage."""
    view(parameter.value).copy_(source.detach())
    source.data = view(parameter.value)
    if parameter.squares is not None:
        view(parameter.squares).copy_(optimizer.state[source]["sum"])
        optimizer.state[source]["sum"] = view(parameter.squares)
