"""Whether Triton's kernels can be used on a device: they are launched, on an example, and held to the plain form."""

import torch

from reference_models.fused.merged_embedding import MergedEmbedding

_NUM_SAMPLES = 512
_TOLERANCE = 1e-4


def kernel_problem(device: torch.device, dim: int, state_size: int, dtype: torch.dtype = torch.float32) -> str | None:
    """Say in a line why tables of width `dim` cannot be updated by kernels on `device`; None where they can.

    Not without Triton or the compiler that it needs, and not where an example with gradients of `dtype`, and 0, 1 or
    `dim` sums of squares per row, ends in other numbers than the plain form's. Kernels are compiled by this.
    """
    if device.type != "cuda":
        return f"Triton's kernels are for CUDA, not for {device.type}"
    try:
        import triton  # noqa: F401
    except ImportError as error:
        return f"Triton cannot be imported: {error}"
    try:
        distance = example_distance(device, dim, state_size, dtype)
    except Exception as error:  # whatever a compiler, a driver or a kernel raises
        return f"Triton's kernels do not run here: {type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
    if not distance <= _TOLERANCE:
        return f"Triton's kernels differ from the plain form by {distance:.2g}, expected at most {_TOLERANCE:g}"
    return None


def example_distance(device: torch.device, dim: int, state_size: int, dtype: torch.dtype) -> float:
    """Update an example by the kernels and by the plain form; return the largest difference of weights or sums.

    One of its rows fills several blocks, as frequent ids do, and the others are short.
    """
    num_embeddings, multi_hot = (2, 300), (3, 1)
    generator = torch.Generator().manual_seed(0)
    limits = torch.tensor([num_embeddings[0]] * 3 + [num_embeddings[1]])
    indices = torch.randint(0, 300, (_NUM_SAMPLES, 4), generator=generator) % limits
    gradients = torch.randn(_NUM_SAMPLES, 3, dim, generator=generator).to(device, dtype) / _NUM_SAMPLES
    weight = torch.randn(sum(num_embeddings), dim, generator=generator)
    state = torch.rand(sum(num_embeddings), state_size, generator=generator) if state_size else None
    ends: list[tuple[torch.Tensor, torch.Tensor | None]] = []
    for has_kernels in (True, False):
        # Copies, also where the device is that of the example.
        copies = weight.to(device, copy=True), None if state is None else state.to(device, copy=True)
        embedding = MergedEmbedding(*copies, num_embeddings, multi_hot, has_kernels=has_kernels)
        rows, plan = embedding.merge_ids(indices.to(device)), embedding.plan(_NUM_SAMPLES)
        rate = torch.tensor(0.1, device=device)
        embedding.update_static(rows, plan, gradients if has_kernels else gradients.float(), rate, 1e-8)
        ends.append(copies)
    pairs = zip(*ends, strict=True)
    return max(
        float((kernel - plain).abs().max()) for kernel, plain in pairs if kernel is not None and plain is not None
    )
