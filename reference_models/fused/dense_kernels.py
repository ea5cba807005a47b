"""Triton kernels for the work around the matrix products of a step that is captured in a CUDA graph: sums of bags,
and gradients of cross layers.

Two custom operators, `dlrmbench::read_bags` and `dlrmbench::cross_gradients`, launch the kernels
(`reference_models.fused.triton_dense`). Where the kernels cannot run, torch's own operators compute the same: sums of
bags in `MergedEmbedding.read`, gradients in `plain_cross_gradients`.
"""

import torch

from reference_models.fused.kernel_sizes import KernelSizes, choose_sizes, count_multiprocessors

_TYPES = (torch.float32, torch.bfloat16)


def _launch_read(
    rows: torch.Tensor, starts: torch.Tensor, weight: torch.Tensor, out: torch.Tensor, tile: int
) -> None:
    _check_read(rows, starts, weight, out, tile)
    from reference_models.fused.triton_dense import launch_read

    launch_read(rows, starts, weight, out, tile=tile)


def _check_read(rows: torch.Tensor, starts: torch.Tensor, weight: torch.Tensor, out: torch.Tensor, tile: int) -> None:
    """Raise ValueError for shapes or types that `read_bags` (sums of table rows) does not support.

    For fake tensors (shapes without data) the operator does this check and nothing else.
    """
    num_samples, num_bags, dim = out.shape
    is_right = (
        len(rows) % num_samples == 0
        and rows.dtype in (torch.int32, torch.int64)
        and starts.shape == (num_bags + 1,)
        and starts.dtype == torch.int32
        and weight.shape[1] == dim
        and weight.dtype == torch.float32
        and out.dtype in _TYPES
        and all(tensor.is_contiguous() for tensor in (rows, starts, weight, out))
    )
    if not is_right:
        raise ValueError(
            f"read_bags: {_name(rows)} rows, {_name(starts)} starts, weight {_name(weight)}, out {_name(out)}; "
            "expected int rows [B * H], int32 starts [bags + 1], weight float32 [R, d], out [B, bags, d], no gaps."
        )


def _launch_cross(
    dy: torch.Tensor, x_0: torch.Tensor, z: torch.Tensor, dx_0: torch.Tensor, parts: torch.Tensor, adds: bool,
    samples: int, columns: int, warps: int,
) -> None:  # fmt: skip
    _check_cross(dy, x_0, z, dx_0, parts, adds, samples, columns, warps)
    from reference_models.fused.triton_dense import launch_cross

    launch_cross(dy, x_0, z, dx_0, parts, adds=adds, samples=samples, columns=columns, warps=warps)


def _check_cross(
    dy: torch.Tensor, x_0: torch.Tensor, z: torch.Tensor, dx_0: torch.Tensor, parts: torch.Tensor, adds: bool,
    samples: int, columns: int, warps: int,
) -> None:  # fmt: skip
    """Raise ValueError for shapes or types that `cross_gradients` (of a cross layer) does not support.

    For fake tensors (shapes without data) the operator does this check and nothing else.
    """
    same = (dy, x_0, z, dx_0)
    is_right = (
        all(t.shape == dy.shape and t.dtype == dy.dtype and t.is_contiguous() for t in same)
        and dy.dtype in _TYPES
        and parts.shape == (num_parts(len(dy), samples), dy.shape[1])
        and parts.dtype == torch.float32
    )
    if not is_right:
        raise ValueError(
            f"cross_gradients: {', '.join(map(_name, same))} and {_name(parts)}; expected four of one type [B, N] "
            "without gaps and float32 parts."
        )


def _name(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"


_LIBRARY = torch.library.Library("dlrmbench", "FRAGMENT")  # type: ignore[no-untyped-call]
_LIBRARY.define(  # type: ignore[no-untyped-call]
    "read_bags(Tensor rows, Tensor starts, Tensor weight, Tensor(a!) out, int tile) -> ()"
)
_LIBRARY.define(  # type: ignore[no-untyped-call]
    "cross_gradients(Tensor dy, Tensor x_0, Tensor(a!) z, Tensor(b!) dx_0, Tensor(c!) parts, bool adds, "
    "int samples, int columns, int warps) -> ()"
)
_LIBRARY.impl("read_bags", _launch_read, "CompositeExplicitAutograd")  # type: ignore[no-untyped-call]
_LIBRARY.impl("cross_gradients", _launch_cross, "CompositeExplicitAutograd")  # type: ignore[no-untyped-call]
torch.library.register_fake("dlrmbench::read_bags", _check_read, lib=_LIBRARY)
torch.library.register_fake("dlrmbench::cross_gradients", _check_cross, lib=_LIBRARY)


def read_bags(
    rows: torch.Tensor,
    starts: torch.Tensor,
    weight: torch.Tensor,
    num_samples: int,
    dtype: torch.dtype,
    sizes: KernelSizes | None = None,
) -> torch.Tensor:
    """Return the sums of bags of table rows, [B, bags, d] in `dtype`, which is float32 or bfloat16.

    `rows` [B * H] are the rows of `weight` float32 [R, d] that B samples' H lookups name. Bag f holds the lookups
    `starts[f]` to `starts[f + 1] - 1` of a sample; `starts` is int32 [bags + 1]. Sums are computed in float32. Raises
    ValueError for other shapes and types.
    """
    out = weight.new_empty(num_samples, len(starts) - 1, weight.shape[1], dtype=dtype)
    torch.ops.dlrmbench.read_bags(rows, starts, weight, out, (sizes or choose_sizes()).tile)
    return out


def cross_gradients(
    dy: torch.Tensor,
    x_0: torch.Tensor,
    z: torch.Tensor,
    dx_0: torch.Tensor | None,
    *,
    adds: bool,
    sizes: KernelSizes | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return two gradients of a cross layer y = x_0 * z + x, given the gradient dy of y: the gradient of x_0, dy z
    [B, N], and that of the bias in z, the sums [N] of dy x_0 over the samples.

    The gradient of x_0 is written to `dx_0`, or added to it if `adds`; to new memory where `dx_0` is None. `z` is
    overwritten by its gradient, dy x_0. dy, x_0, z and dx_0 have one type, float32 or bfloat16; computing is in
    float32. `sizes` are by default those that `choose_sizes` returns for the samples and columns.
    """
    num_samples, num_columns = dy.shape
    if sizes is None:
        sizes = choose_sizes(
            num_samples=num_samples, num_columns=num_columns, num_multiprocessors=count_multiprocessors(dy.device)
        )
    parts = dy.new_empty(num_parts(num_samples, sizes.samples), num_columns, dtype=torch.float32)
    into = torch.empty_like(dy) if dx_0 is None else dx_0
    torch.ops.dlrmbench.cross_gradients(dy, x_0, z, into, parts, adds, sizes.samples, sizes.columns, sizes.warps)
    return into, parts.sum(0)


def plain_cross_gradients(
    dy: torch.Tensor, x_0: torch.Tensor, z: torch.Tensor, dx_0: torch.Tensor | None, *, adds: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a cross layer's gradients as `cross_gradients` does, but by torch's operators, which round products to
    the tensors' type, such as bfloat16, before they are summed."""
    dx_0 = dx_0.addcmul_(dy, z) if adds and dx_0 is not None else torch.mul(dy, z, out=dx_0)
    return dx_0, torch.mul(dy, x_0, out=z).sum(0)


def num_parts(num_samples: int, samples: int) -> int:
    """Return the number of kernel programs among which a batch is divided, `samples` samples each; each program
    writes a partial sum per column."""
    return -(-num_samples // samples)
