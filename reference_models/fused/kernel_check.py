"""Whether Triton's kernels can be used on a device: they are launched, on an example, and held to the plain form."""

import os

import torch

from reference_models.fused.cpu_kernels import WIDTHS, CPUKernels, find_cpu_kernels
from reference_models.fused.dense_kernels import cross_gradients, plain_cross_gradients
from reference_models.fused.merged_embedding import MergedEmbedding
from reference_models.fused.private_folder import private_folder

_NUM_SAMPLES = 512
_TOLERANCE = 1e-4
_CPU_TOLERANCE = 1e-3
"""Some two hundred numbers of size 1 are added in another order here, and their squares."""


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
    if not distance <= _TOLERANCE:
        return f"Triton's kernels differ from the plain form by {distance:.2g}, expected at most {_TOLERANCE:g}"
    return None


def checked_cpu_kernels(dim: int, state_size: int) -> CPUKernels | str:
    """Return the compiled update of tables of width `dim` on a CPU; why not, in a line, where there is none.

    Not without a compiler, not for another width than `WIDTHS`, and not where an example, with 0, 1 or `dim` sums of
    squares per row, ends in other numbers than by torch's operators.
    """
    if dim not in WIDTHS:
        return f"rows of {dim} numbers, where the compiled update has {', '.join(map(str, WIDTHS))}"
    kernels = find_cpu_kernels()
    if isinstance(kernels, str):
        return kernels
    by_kernels, plain = (_update_example(dim, state_size, each) for each in (kernels, None))
    distance = max(float((one - other).abs().max()) for one, other in zip(by_kernels, plain, strict=True))
    if not distance <= _CPU_TOLERANCE:
        return f"the compiled update differs from torch's by {distance:.2g}, expected at most {_CPU_TOLERANCE:g}"
    return kernels


def _update_example(dim: int, state_size: int, kernels: CPUKernels | None) -> list[torch.Tensor]:
    """A row that most lookups are of, and rows that few are of; weights, then sums of squares, after two steps."""
    generator = torch.Generator().manual_seed(0)
    rows, hot, num_samples = (2, 5000), (3, 1), 64
    weight = torch.randn(sum(rows), dim, generator=generator)
    state = torch.rand(sum(rows), state_size, generator=generator) if state_size else None
    embedding = MergedEmbedding(weight, state, rows, hot, cpu_kernels=kernels)
    limits = torch.tensor([rows[0]] * hot[0] + [rows[1]] * hot[1])
    for _ in range(2):
        indices = torch.randint(0, rows[1], (num_samples, sum(hot)), generator=generator) % limits
        gradients = torch.randn(num_samples, 3, dim, generator=generator)
        embedding.update(embedding.merge_ids(indices), embedding.plan(num_samples), gradients, 0.1, 1e-8)
    return [weight] if state is None else [weight, state]


def keep_compiled_kernels() -> None:
    """Let Triton write to this user's own temporary folder, where TRITON_CACHE_DIR or TRITON_HOME names none.

    By itself it writes to the user's home.
    """
    if os.environ.keys() & {"TRITON_CACHE_DIR", "TRITON_HOME"}:
        return
    os.environ["TRITON_CACHE_DIR"] = str(private_folder())


def example_distance(device: torch.device, dim: int, state_size: int, dtype: torch.dtype) -> float:
    """Compute an example by the kernels and by the plain forms; return the largest difference, in float32's terms.

    Bags are read and updated; one row fills several blocks, as frequent ids do, and the others are short. A cross
    layer is differentiated. Differences of narrower results count by as much less as these resolve.
    """
    by_kernels, plain = (
        [*_read_and_update(device, dim, state_size, dtype, has_kernels=has_kernels),
         *_differentiate(device, dtype, has_kernels=has_kernels)]
        for has_kernels in (True, False)
    )  # fmt: skip
    resolution = torch.finfo(torch.float32).eps
    distances = [
        (one.double() - other.double()).abs().max() * (resolution / torch.finfo(one.dtype).eps)
        for one, other in zip(by_kernels, plain, strict=True)
    ]
    return float(torch.stack(distances).max())


def _read_and_update(
    device: torch.device, dim: int, state_size: int, dtype: torch.dtype, *, has_kernels: bool
) -> list[torch.Tensor]:
    num_embeddings, multi_hot = (2, 300), (3, 1)
    generator = torch.Generator().manual_seed(0)
    limits = torch.tensor([num_embeddings[0]] * 3 + [num_embeddings[1]])
    indices = torch.randint(0, 300, (_NUM_SAMPLES, 4), generator=generator) % limits
    gradients = torch.randn(_NUM_SAMPLES, 3, dim, generator=generator).to(dtype) / _NUM_SAMPLES
    weight = torch.randn(sum(num_embeddings), dim, generator=generator).to(device)
    state = torch.rand(sum(num_embeddings), state_size, generator=generator).to(device) if state_size else None
    embedding = MergedEmbedding(weight, state, num_embeddings, multi_hot, has_kernels=has_kernels)
    rows, plan = embedding.merge_ids(indices.to(device)), embedding.plan(_NUM_SAMPLES)
    read = embedding.read(rows, plan, dtype)
    embedding.update_static(rows, plan, gradients.to(device), torch.tensor(0.1, device=device), 1e-8)
    return [read, weight] if state is None else [read, weight, state]


def _differentiate(device: torch.device, dtype: torch.dtype, *, has_kernels: bool) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    dy, x_0, z, dx_0 = (torch.randn(100, 260, generator=generator).to(device, dtype) for _ in range(4))
    differentiate = cross_gradients if has_kernels else plain_cross_gradients
    dx_0, bias = differentiate(dy, x_0, z, dx_0, adds=True)
    first, _ = differentiate(dy, x_0, z.clone(), None, adds=False)
    # The plain form rounds what it sums, to narrow numbers.
    return [z, dx_0, first] if dtype != torch.float32 else [z, dx_0, first, bias]
