"""Checks that compiled kernels work on a device: they compute examples, which are compared with torch's operators."""

import atexit
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
from torch import nn

from reference_models.fused.cpu_kernels import CPUKernels, find_cpu_kernels
from reference_models.fused.dense_kernels import cross_gradients, plain_cross_gradients
from reference_models.fused.dense_parameters import DenseParameter
from reference_models.fused.interaction import fuse_interaction
from reference_models.fused.kernel_sizes import choose_sizes
from reference_models.fused.layers import fuse_mlp, passes
from reference_models.fused.matmul import Matmuls
from reference_models.fused.merged_embedding import LookupPlan, MergedEmbedding
from reference_models.fused.private_folder import private_folder
from reference_models.layers.interaction import DotInteraction, LowRankCrossNet

_NUM_SAMPLES = 64
_TOLERANCE = 1e-4
"""Largest relative error of a kernel that rounding explains. The error is the distance between a row's change by the
kernel and its change by torch's operators, divided by the size of the change.

Each addition is rounded by at most u = 2^-24 of the partial sum, so a sum of n numbers is off by at most about n u.
The longest sum of the check's example has 640 numbers: n u is 4e-5, and twice that if both the kernel's sum and
torch's are off. Errors of a faulty kernel are larger: an approximate square root or quotient is off by 2^-12, an
operand in TF32 by 2^-11.
"""


def kernel_problem(device: torch.device, dim: int, state_size: int, dtype: torch.dtype = torch.float32) -> str | None:
    """Return why Triton's kernels cannot update tables of width `dim` on `device`, in one line; None where they can.

    Reasons are a missing Triton, a missing compiler, or an example whose numbers differ from those of torch's
    operators. The example has gradients of `dtype`, and `state_size` (0, 1 or `dim`) sums of squares per row. The
    check compiles the kernels, into the folder of `keep_compiled_kernels`.
    """
    if device.type != "cuda":
        return f"Triton's kernels are for CUDA, not for {device.type}"
    try:
        import triton  # noqa: F401
    except ImportError as error:
        return f"Triton cannot be imported: {error}"
    try:
        keep_compiled_kernels()
        distance = example_distance(device, dim, state_size, dtype)
    except Exception as error:  # any error of a compiler, a driver or a kernel
        return f"Triton's kernels do not run here: {type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
    if not distance <= 1:
        return f"Triton's kernels differ from the plain form by {distance:.2g} times what rounding explains"
    return None


def checked_cpu_kernels(dim: int, state_size: int) -> CPUKernels | str:
    """Return the compiled functions of a training step on a CPU, for tables of width `dim`; if they cannot be used, a
    line with the reason. The reason is a missing compiler, or an example in which their numbers differ from those of
    torch's operators.

    `state_size` is the number of sums of squares that the example's optimizer keeps for a row: 0, 1 or `dim`.
    """
    kernels = find_cpu_kernels()
    if isinstance(kernels, str):
        return kernels
    with _nothing_left_in_memory():
        distance = _furthest(
            *([*_update_example(dim, state_size, each), *_passes_example(dim, each)] for each in (kernels, None))
        )
    if not distance <= 1:
        return f"the compiled passes differ from torch's by {distance:.2g} times what rounding explains"
    return kernels


@contextmanager
def _nothing_left_in_memory() -> Iterator[None]:
    """Fill new tensors with NaN while inside, so that no kernel passes the check by numbers that an earlier example
    left in memory.

    See "torch.utils.deterministic.fill_uninitialized_memory" in PyTorch's documentation.
    """
    before = torch.get_deterministic_debug_mode()
    torch.set_deterministic_debug_mode("error")
    try:
        yield
    finally:
        torch.set_deterministic_debug_mode(before)


class ChangedValues(NamedTuple):
    """Tensor that a kernel changed in place, float32 [rows, numbers of a row], and its values before the change."""

    after: torch.Tensor
    before: torch.Tensor

    def distance(self, plain: "ChangedValues") -> torch.Tensor:
        """Return the largest error of the kernel's changes over rows, divided by the error that rounding explains.

        A row's error is the distance between its change by the kernel and its change by torch's operators. A result
        of up to 1 is explained by rounding.
        """
        change, error = plain.after - plain.before, self.after - plain.after
        # Both forms round each of two steps' results by half a unit.
        rounding = 2 * torch.finfo(error.dtype).eps * plain.after.norm(dim=1)
        allowed = _TOLERANCE * change.norm(dim=1) + rounding
        return torch.max(error.norm(dim=1) / allowed.clamp(min=1e-30))


class ComputedValues(NamedTuple):
    """Result of a kernel that is a new tensor, of any floating type."""

    values: torch.Tensor
    allowed: torch.Tensor | None = None
    """Largest difference from the result of torch's operators that rounding explains, for each number of the result.
    If None, it is four units in the last place of the number (of 1 for numbers below 1), which suits a few operations
    on numbers of about one."""

    def distance(self, plain: "ComputedValues") -> torch.Tensor:
        """Return the error of the kernel's numbers, relative to what rounding explains: for each number the
        difference from torch's operators, divided by the difference that rounding explains; the largest over
        numbers."""
        expected, allowed = plain.values.double(), plain.allowed
        if allowed is None:
            allowed = 4 * torch.finfo(self.values.dtype).eps * expected.abs().clamp(min=1)
        return ((self.values.double() - expected).abs() / allowed.double().clamp(min=1e-30)).max()


def _furthest(
    ours: Sequence[ChangedValues | ComputedValues], plain: Sequence[ChangedValues | ComputedValues]
) -> float:
    """Return the largest error of a kernel's tensors, compared with those of torch's operators; 1 is the largest
    error that rounding explains. Returns NaN if any tensor's error is NaN."""
    found = [one.distance(other) for one, other in zip(ours, plain, strict=True)]  # type: ignore[arg-type]
    return float(torch.stack([distance.double() for distance in found]).max())


def _update_example(dim: int, state_size: int, kernels: CPUKernels | None) -> list[ChangedValues | ComputedValues]:
    """Return the results of an example with rows looked up often and rows looked up rarely: sums of bags, and weights
    and sums of squares after two updates.

    The results of the compiled functions are compared with those of torch's operators. So bags are summed before the
    first update, while both have equal rows: after it, rows differ by the rounding of a hundred additions.
    """
    generator = torch.Generator().manual_seed(0)
    rows, hot, num_samples = (2, 5000), (3, 1), 64
    weight = torch.randn(sum(rows), dim, generator=generator)
    state = torch.rand(sum(rows), state_size, generator=generator) if state_size else None
    changed = [weight] if state is None else [weight, state]
    before = [tensor.clone() for tensor in changed]
    embedding = MergedEmbedding(weight, state, rows, hot, cpu_kernels=kernels)
    limits = torch.tensor([rows[0]] * hot[0] + [rows[1]] * hot[1])
    plan, read = embedding.plan(num_samples), None
    for _ in range(2):
        indices = torch.randint(0, rows[1], (num_samples, sum(hot)), generator=generator) % limits
        gradients = torch.randn(num_samples, 3, dim, generator=generator)
        ids = embedding.merge_ids(indices)
        read = read or _read_bags(embedding, ids, plan, max(hot))
        embedding.update(ids, plan, gradients, 0.1, 1e-8)
    assert read is not None
    return [read, *map(ChangedValues, changed, before)]


def _read_bags(
    embedding: MergedEmbedding, rows: torch.Tensor, plan: LookupPlan, hot: int, dtype: torch.dtype = torch.float32
) -> ComputedValues:
    """Return an example's sums of bags, and the largest difference that rounding explains between a kernel's sums and
    torch's.

    Bags have at most `hot` lookups. Sums are added in float32, then rounded to `dtype`. Each of the hot - 1 additions
    is rounded by at most half a unit in the last place of the sum of absolute values. If `dtype` is narrower than
    float32, half a unit of `dtype` is added. The bound is twice this, since both sums are rounded.
    """
    values, weight = embedding.read(rows, plan, dtype), embedding.weight
    embedding.weight = weight.abs()
    sizes = embedding.read(rows, plan, torch.float32)
    embedding.weight = weight
    narrowed = 0.0 if dtype == torch.float32 else torch.finfo(dtype).eps
    return ComputedValues(values, ((hot - 1) * torch.finfo(torch.float32).eps + narrowed) * sizes)


@torch.no_grad()
def _passes_example(dim: int, kernels: CPUKernels | None) -> list[ChangedValues | ComputedValues]:
    """Return results, gradients and updated weights of an example with an MLP, dot products, cross layers and a
    matrix product."""
    num_samples, num_features, found = 70, 5, []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        mlp = nn.Sequential(nn.Linear(24, 40), nn.ReLU(), nn.Linear(40, 8))
        dot, cross = DotInteraction(num_features, dim), LowRankCrossNet(num_features, dim, 2, 8)
        x, like = torch.randn(num_samples, 24), torch.empty(0, dim)
        features = torch.randn(num_samples, num_features, dim)
        gradients = [torch.randn(num_samples, num_features * dim + 32) for _ in range(3)]
    parameters = [*mlp.parameters(), *cross.parameters()]
    before = [parameter.detach().clone() for parameter in parameters]
    # The optimizer's members that passes read; torch.optim.Adagrad would import torch's compiler. Its sums start
    # above zero: a first step from zero is the gradient's sign alone, which rounding turns where a gradient is nearly
    # zero.
    optimizer: Any = SimpleNamespace(
        state={parameter: {"sum": torch.ones_like(parameter)} for parameter in parameters}
    )
    matmuls = Matmuls(cpu_kernels=kernels)
    layers = passes(
        fuse_mlp(mlp, optimizer, matmuls, pads_input=False), num_samples, matmuls, trains=True, needs_dx=True
    )
    middles = [
        fuse_interaction(module, num_features, like, optimizer, matmuls).over(num_samples, matmuls, trains=True)
        for module in (dot, cross)
    ]

    def update(parameter: DenseParameter, gradient: torch.Tensor) -> None:
        parameter.update(gradient, 0.1, 1e-8, kernels)

    for _ in range(2):
        y = x
        for layer in layers:
            y = layer.forward(y)
        dy: torch.Tensor | None = gradients[0][:, : y.shape[1]].clone()
        found.append(y.clone())
        for layer in reversed(layers):
            assert dy is not None
            dy = layer.backward(dy, update)
        assert dy is not None
        found.append(dy.clone())
        for middle, given in zip(middles, gradients[1:], strict=True):
            y = middle.forward(features)
            found += [y.clone(), middle.backward(given[:, : y.shape[1]].clone(), update).flatten(1).clone()]
    if kernels is not None and kernels.has_openblas:
        found.append(kernels.multiply(x, x.t(), x.new_zeros(num_samples, num_samples)))
    else:
        found.append(x @ x.t())
    computed = [ChangedValues(values, torch.zeros_like(values)) for values in found]
    pairs = zip(parameters, before, strict=True)
    return [*computed, *(ChangedValues(*(t.detach().view(-1, t.shape[-1]) for t in pair)) for pair in pairs)]


def keep_compiled_kernels() -> None:
    """Let Triton store compiled kernels in this user's own temporary folder (`private_folder`), unless
    TRITON_CACHE_DIR or TRITON_HOME names another.

    Triton's default is the user's home.
    """
    if os.environ.keys() & {"TRITON_CACHE_DIR", "TRITON_HOME"}:
        return
    stack = ExitStack()
    os.environ["TRITON_CACHE_DIR"] = str(stack.enter_context(private_folder()))
    atexit.register(stack.close)


def example_distance(device: torch.device, dim: int, state_size: int, dtype: torch.dtype) -> float:
    """Compute an example by Triton's kernels and by torch's operators; return the greatest distance of their results,
    where 1 is the largest distance that rounding explains.

    The example sums bags, updates tables, and computes the gradients of a cross layer. One row, like the row of a
    frequent id, has lookups that span more blocks than a kernel adds up at a time. The lookups of two further rows
    span a few blocks each. Other rows are looked up a few times or never. Tensors changed in place, and a bias's
    gradient in float32, are compared row by row, relative to the size of the change. All other results are compared
    number by number, relative to the resolution of their type.
    """
    return _furthest(
        *(
            [
                *_read_and_update(device, dim, state_size, dtype, has_kernels=has_kernels),
                *_differentiate(device, dtype, has_kernels=has_kernels),
            ]
            for has_kernels in (True, False)
        )
    )


def _read_and_update(
    device: torch.device, dim: int, state_size: int, dtype: torch.dtype, *, has_kernels: bool
) -> list[ChangedValues | ComputedValues]:
    sizes = choose_sizes()  # the smallest sizes, as for few lookups; kernels are compiled once for all block sizes
    hot = max((sizes.pieces + 2) * sizes.block // _NUM_SAMPLES, sizes.tile) + 1
    num_embeddings, multi_hot = (1, 2, 300), (hot, 3, 1)
    generator = torch.Generator().manual_seed(0)
    limits = torch.tensor(num_embeddings).repeat_interleave(torch.tensor(multi_hot))
    indices = torch.randint(0, 300, (_NUM_SAMPLES, len(limits)), generator=generator) % limits
    gradients = torch.randn(_NUM_SAMPLES, 4, dim, generator=generator).to(dtype)
    weight = torch.randn(sum(num_embeddings), dim, generator=generator).to(device)
    state = torch.rand(sum(num_embeddings), state_size, generator=generator).to(device) if state_size else None
    changed = [weight] if state is None else [weight, state]
    before = [tensor.clone() for tensor in changed]
    embedding = MergedEmbedding(weight, state, num_embeddings, multi_hot, has_kernels=has_kernels)
    rows, plan = embedding.merge_ids(indices.to(device)), embedding.plan(_NUM_SAMPLES)
    read = _read_bags(embedding, rows, plan, hot, dtype)
    embedding.update_static(rows, plan, gradients.to(device), torch.tensor(0.1, device=device), 1e-8)
    return [read, *map(ChangedValues, changed, before)]


def _differentiate(
    device: torch.device, dtype: torch.dtype, *, has_kernels: bool
) -> list[ChangedValues | ComputedValues]:
    generator = torch.Generator().manual_seed(0)
    dy, x_0, z, dx_0 = (torch.randn(101, 260, generator=generator).to(device, dtype) for _ in range(4))
    # Programs of several samples, the last program of an odd number; by default few samples get a program each.
    sizes = replace(choose_sizes(), samples=16)
    differentiate = partial(cross_gradients, sizes=sizes) if has_kernels else plain_cross_gradients
    dx_0, bias = differentiate(dy, x_0, z, dx_0, adds=True)
    first, _ = differentiate(dy, x_0, z.clone(), None, adds=False)
    # A sum of a hundred numbers, of a size of about ten; the plain form narrows the numbers before it adds them.
    sums = (
        ChangedValues(bias[None], torch.zeros_like(bias[None]))
        if dtype == torch.float32
        else ComputedValues((bias / 10).to(dtype))
    )
    return [*map(ComputedValues, (z, dx_0, first)), sums]
