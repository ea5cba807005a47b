"""Kernels around a captured step's matrix products: bags are read in the products' type, cross layers differentiated.

Two operators of torch, `dlrmbench::read_bags` and `dlrmbench::cross_gradients`, whose kernels are Triton's
(`reference_models.fused.triton_dense`). `MergedEmbedding.read` without them and `plain_cross_gradients` are the
plain forms.
"""

import torch

TILE = 8
"""Rows of a bag that are on their way at once. Chosen by thought, not measured."""
SAMPLES, COLUMNS = 64, 256
"""Samples and columns of one program of a cross layer's gradients. Chosen by thought, not measured."""
_TYPES = (torch.float32, torch.bfloat16)


def _launch_read(rows: torch.Tensor, starts: torch.Tensor, weight: torch.Tensor, out: torch.Tensor) -> None:
    _check_read(rows, starts, weight, out)
    from reference_models.fused.triton_dense import launch_read

    launch_read(rows, starts, weight, out, tile=TILE)


def _check_read(rows: torch.Tensor, starts: torch.Tensor, weight: torch.Tensor, out: torch.Tensor) -> None:
    """Raise ValueError for other shapes and types than the kernel reads: all that it does on fake tensors."""
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
    dy: torch.Tensor, x_0: torch.Tensor, z: torch.Tensor, dx_0: torch.Tensor, parts: torch.Tensor, adds: bool
) -> None:
    _check_cross(dy, x_0, z, dx_0, parts, adds)
    from reference_models.fused.triton_dense import launch_cross

    launch_cross(dy, x_0, z, dx_0, parts, adds=adds, samples=SAMPLES, columns=COLUMNS)


def _check_cross(
    dy: torch.Tensor, x_0: torch.Tensor, z: torch.Tensor, dx_0: torch.Tensor, parts: torch.Tensor, adds: bool
) -> None:
    """Raise ValueError for other shapes and types than the kernel reads: all that it does on fake tensors."""
    same = (dy, x_0, z, dx_0)
    is_right = (
        all(t.shape == dy.shape and t.dtype == dy.dtype and t.is_contiguous() for t in same)
        and dy.dtype in _TYPES
        and parts.shape == (_num_parts(len(dy)), dy.shape[1])
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
    "read_bags(Tensor rows, Tensor starts, Tensor weight, Tensor(a!) out) -> ()"
)
_LIBRARY.define(  # type: ignore[no-untyped-call]
    "cross_gradients(Tensor dy, Tensor x_0, Tensor(a!) z, Tensor(b!) dx_0, Tensor(c!) parts, bool adds) -> ()"
)
_LIBRARY.impl("read_bags", _launch_read, "CompositeExplicitAutograd")  # type: ignore[no-untyped-call]
_LIBRARY.impl("cross_gradients", _launch_cross, "CompositeExplicitAutograd")  # type: ignore[no-untyped-call]
torch.library.register_fake("dlrmbench::read_bags", _check_read, lib=_LIBRARY)
torch.library.register_fake("dlrmbench::cross_gradients", _check_cross, lib=_LIBRARY)


def read_bags(
    rows: torch.Tensor, starts: torch.Tensor, weight: torch.Tensor, num_samples: int, dtype: torch.dtype
) -> torch.Tensor:
    """Compute sums of bags [B, bags, d] of `dtype`, float32 or bfloat16, of the rows [B * H] of `weight` [R, d].

    Of each sample's H lookups those from `starts[f]` to `starts[f + 1] - 1`, int32 [bags + 1], are bag f; sums are
    made in float32. Raises ValueError for other shapes and types.
    """
    out = weight.new_empty(num_samples, len(starts) - 1, weight.shape[1], dtype=dtype)
    torch.ops.dlrmbench.read_bags(rows, starts, weight, out)
    return out


def cross_gradients(
    dy: torch.Tensor, x_0: torch.Tensor, z: torch.Tensor, dx_0: torch.Tensor | None, *, adds: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Differentiate y = x_0 * z + x by x_0 and by z's bias: dy z [B, N], and sums of dy x_0 [N].

    The former is written to `dx_0`, or with `adds` added to it; without it, to memory of its own. `z` becomes its
    gradient dy x_0. All four are of one type, float32 or bfloat16, and computed in float32.
    """
    parts = dy.new_empty(_num_parts(len(dy)), dy.shape[1], dtype=torch.float32)
    into = torch.empty_like(dy) if dx_0 is None else dx_0
    torch.ops.dlrmbench.cross_gradients(dy, x_0, z, into, parts, adds)
    return into, parts.sum(0)


def plain_cross_gradients(
    dy: torch.Tensor, x_0: torch.Tensor, z: torch.Tensor, dx_0: torch.Tensor | None, *, adds: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Do `cross_gradients` by torch's operators; the sums are of rounded numbers where these are narrow."""
    dx_0 = dx_0.addcmul_(dy, z) if adds and dx_0 is not None else torch.mul(dy, z, out=dx_0)
    return dx_0, torch.mul(dy, x_0, out=z).sum(0)


def _num_parts(num_samples: int) -> int:
    return -(-num_samples // SAMPLES)
