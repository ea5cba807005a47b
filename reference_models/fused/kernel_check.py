"""Whether compiled kernels can be used on a device: they are launched, on examples, and held to the plain form."""

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
"""How far a row's change, as a vector, may be from the plain form's, relative to its own size.

A sum of n numbers of random signs, whose size is the square root of n times theirs, moves by n u of itself where each
of its additions is rounded by u = 2^-24 of what is added up so far, in the worst order and all to one side: 4e-5 for
the 640 that the longest one here has, and twice that for two forms. What is wrong is further away: a square root or a
quotient that is only estimated is off by 2^-12, an operand of TF32 by 2^-11."""


def kernel_problem(device: torch.device, dim: int, state_size: int, dtype: torch.dtype = torch.float32) -> str | None:
    """Say in a line why tables of width `dim` cannot be updated by kernels on `device`; None where they can.

    Not without Triton or the compiler that it needs, and not where an example with gradients of `dtype`, and 0, 1 or
    `dim` sums of squares per row, ends in other numbers than the plain form's. Kernels are compiled by this, into
    the folder of `keep_compiled_kernels`.
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
    except Exception as error:  # whatever a compiler, a driver or a kernel raises
        return f"Triton's kernels do not run here: {type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
    if not distance <= 1:
        return f"Triton's kernels differ from the plain form by {distance:.2g} times what rounding explains"
    return None


def checked_cpu_kernels(dim: int, state_size: int) -> CPUKernels | str:
    """Return the compiled passes of a step on a CPU, with tables of width `dim`; why not, in a line, without any.

    Not without a compiler, and not where an example, with 0, 1 or `dim` sums of squares per row, ends in other
    numbers than by torch's operators.
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
    """New tensors hold no numbers until something is written to them: not those of an earlier example, which a pass
    that writes nothing would be right by.

    See "torch.utils.deterministic.fill_uninitialized_memory" in PyTorch's documentation.
    """
    before = torch.get_deterministic_debug_mode()
    torch.set_deterministic_debug_mode("error")
    try:
        yield
    finally:
        torch.set_deterministic_debug_mode(before)


class Change(NamedTuple):
    """What is changed in place, float32 [rows, numbers of a row], and what it was."""

    after: torch.Tensor
    before: torch.Tensor

    def distance(self, plain: "Change") -> torch.Tensor:
        """Compare each row's change with that of the plain form; 1 is what rounding explains."""
        change, error = plain.after - plain.before, self.after - plain.after
        # What two steps write is rounded by half a unit each, in both forms.
        rounding = 2 * torch.finfo(error.dtype).eps * plain.after.norm(dim=1)
        allowed = _TOLERANCE * change.norm(dim=1) + rounding
        return torch.max(error.norm(dim=1) / allowed.clamp(min=1e-30))


class ComputedValues(NamedTuple):
    """What is computed anew, of any floating type."""

    values: torch.Tensor
    allowed: torch.Tensor | None = None
    """How far rounding may take each number of two forms apart; by default four units in the last place of it, or of
    one: for a few operations on numbers of about one, or for a sum in float32 that becomes a narrower number."""

    def distance(self, plain: "ComputedValues") -> torch.Tensor:
        """Compare each number with that of the plain form; 1 is what rounding explains."""
        expected, allowed = plain.values.double(), plain.allowed
        if allowed is None:
            allowed = 4 * torch.finfo(self.values.dtype).eps * expected.abs().clamp(min=1)
        return ((self.values.double() - expected).abs() / allowed.double().clamp(min=1e-30)).max()


def _furthest(ours: Sequence[Change | ComputedValues], plain: Sequence[Change | ComputedValues]) -> float:
    """Return the greatest distance; not a number where one is none."""
    found = [one.distance(other) for one, other in zip(ours, plain, strict=True)]  # type: ignore[arg-type]
    return float(torch.stack([distance.double() for distance in found]).max())


def _update_example(dim: int, state_size: int, kernels: CPUKernels | None) -> list[Change | ComputedValues]:
    """A row that most lookups are of, and rows that few are of: bags, then weights and sums of squares of two steps.

    Bags are those before the first step: after it, rows differ by what rounding did to a hundred additions.
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
    return [read, *map(Change, changed, before)]


def _read_bags(
    embedding: MergedEmbedding, rows: torch.Tensor, plan: LookupPlan, hot: int, dtype: torch.dtype = torch.float32
) -> ComputedValues:
    """Read bags of at most `hot` lookups, which are added in float32, then perhaps rounded to a narrower type.

    Each of the hot - 1 additions is rounded by at most half a unit of the sum of the absolute values, which no part
    of the sum exceeds; so is the result, if it is narrowed; and all that in two forms.
    """
    values, weight = embedding.read(rows, plan, dtype), embedding.weight
    embedding.weight = weight.abs()
    sizes = embedding.read(rows, plan, torch.float32)
    embedding.weight = weight
    narrowed = 0.0 if dtype == torch.float32 else torch.finfo(dtype).eps
    return ComputedValues(values, ((hot - 1) * torch.finfo(torch.float32).eps + narrowed) * sizes)


@torch.no_grad()
def _passes_example(dim: int, kernels: CPUKernels | None) -> list[Change | ComputedValues]:
    """Two layers, dot products, cross layers, a product: results, gradients, weights after two steps of Adagrad."""
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
    # All that is asked of an optimizer; a torch.optim.Adagrad would import torch's compiler. Its sums start above
    # zero: a first step from zero is the gradient's sign alone, which rounding turns where a gradient is almost none.
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
    computed = [Change(values, torch.zeros_like(values)) for values in found]
    pairs = zip(parameters, before, strict=True)
    return [*computed, *(Change(*(t.detach().view(-1, t.shape[-1]) for t in pair)) for pair in pairs)]


def keep_compiled_kernels() -> None:
    """Let Triton write to this user's own temporary folder, where TRITON_CACHE_DIR or TRITON_HOME names none.

    By itself it writes to the user's home.
    """
    if os.environ.keys() & {"TRITON_CACHE_DIR", "TRITON_HOME"}:
        return
    stack = ExitStack()
    os.environ["TRITON_CACHE_DIR"] = str(stack.enter_context(private_folder()))
    atexit.register(stack.close)


def example_distance(device: torch.device, dim: int, state_size: int, dtype: torch.dtype) -> float:
    """Compute an example by the kernels and by plain forms; return their distance: 1 is what rounding explains.

    Bags are read and updated; one row fills more blocks than are joined in one turn, as frequent ids do, others are
    looked up a few times or never. A cross layer is differentiated. What is computed is held number by number, to
    the resolution of its type, and what is changed row by row, to the size of the change.
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
) -> list[Change | ComputedValues]:
    sizes = choose_sizes()  # the least, which so few lookups get; kernels are compiled once for all sizes of blocks
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
    return [read, *map(Change, changed, before)]


def _differentiate(device: torch.device, dtype: torch.dtype, *, has_kernels: bool) -> list[Change | ComputedValues]:
    generator = torch.Generator().manual_seed(0)
    dy, x_0, z, dx_0 = (torch.randn(101, 260, generator=generator).to(device, dtype) for _ in range(4))
    # Programs of several samples, the last one of an odd number; few samples would get one each.
    sizes = replace(choose_sizes(), samples=16)
    differentiate = partial(cross_gradients, sizes=sizes) if has_kernels else plain_cross_gradients
    dx_0, bias = differentiate(dy, x_0, z, dx_0, adds=True)
    first, _ = differentiate(dy, x_0, z.clone(), None, adds=False)
    # A sum of a hundred numbers, about ten, which the plain form rounds to narrow ones before.
    sums = (
        Change(bias[None], torch.zeros_like(bias[None]))
        if dtype == torch.float32
        else ComputedValues((bias / 10).to(dtype))
    )
    return [*map(ComputedValues, (z, dx_0, first)), sums]
