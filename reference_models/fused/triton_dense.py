"""Triton's kernels of reading bags and of a cross layer's gradients; imported only where they are launched.

Tests run them by Triton's interpreter and compile them for GPUs. They have not run on one.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def _read_bags(
    rows, starts, weight, out, hot,
    BAGS: tl.constexpr, D: tl.constexpr, WIDTH: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """Sum one bag of one sample, TILE rows at a time, so that several are on their way. WIDTH holds D."""
    sample, bag = tl.program_id(0).to(tl.int64), tl.program_id(1)
    first, last = tl.load(starts + bag), tl.load(starts + bag + 1)
    columns = tl.arange(0, WIDTH)
    within = columns < D
    total = tl.zeros([WIDTH], tl.float32)
    for begin in range(first, last, TILE):
        places = begin + tl.arange(0, TILE)
        is_there = places < last
        row = tl.load(rows + sample * hot + places, mask=is_there, other=0).to(tl.int64)
        values = tl.load(
            weight + row[:, None] * D + columns[None, :], mask=is_there[:, None] & within[None, :], other=0.0
        )
        total += tl.sum(values, 0)
    place = out + (sample * BAGS + bag) * D + columns
    tl.store(place, total.to(out.dtype.element_ty), mask=within)


@triton.jit
def _cross_gradients(
    dy, x_0, z, dx_0, parts, num_samples, num_columns,
    ADDS: tl.constexpr, SAMPLES: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Compute, for SAMPLES samples and COLUMNS columns, dx_0 (+)= dy z, z = dy x_0, and the sums of the new z."""
    begin = tl.program_id(0) * SAMPLES
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    within = columns < num_columns
    total = tl.zeros([COLUMNS], tl.float32)
    for sample in range(begin, tl.minimum(begin + SAMPLES, num_samples)):
        place = tl.cast(sample, tl.int64) * num_columns + columns
        gradient = tl.load(dy + place, mask=within, other=0.0).to(tl.float32)
        added = gradient * tl.load(z + place, mask=within, other=0.0).to(tl.float32)
        if ADDS:
            added += tl.load(dx_0 + place, mask=within, other=0.0).to(tl.float32)
        tl.store(dx_0 + place, added.to(dx_0.dtype.element_ty), mask=within)
        dz = gradient * tl.load(x_0 + place, mask=within, other=0.0).to(tl.float32)
        tl.store(z + place, dz.to(z.dtype.element_ty), mask=within)
        total += dz
    tl.store(parts + tl.program_id(0).to(tl.int64) * num_columns + columns, total, mask=within)


def launch_read(
    rows: torch.Tensor, starts: torch.Tensor, weight: torch.Tensor, out: torch.Tensor, *, tile: int
) -> None:
    """Launch the reading of `out` [B, bags, d]: see `reference_models.fused.dense_kernels`."""
    num_samples, num_bags, dim = out.shape
    _read_bags[(num_samples, num_bags)](
        rows, starts, weight, out, len(rows) // num_samples,
        BAGS=num_bags, D=dim, WIDTH=triton.next_power_of_2(dim), TILE=tile, num_warps=1, enable_fp_fusion=False,
    )  # fmt: skip


def launch_cross(
    dy: torch.Tensor, x_0: torch.Tensor, z: torch.Tensor, dx_0: torch.Tensor, parts: torch.Tensor, *,
    adds: bool, samples: int, columns: int,
) -> None:  # fmt: skip
    """Launch the gradients of a cross layer: see `reference_models.fused.dense_kernels`."""
    num_samples, num_columns = dy.shape
    grid = (triton.cdiv(num_samples, samples), triton.cdiv(num_columns, columns))
    _cross_gradients[grid](
        dy,
        x_0,
        z,
        dx_0,
        parts,
        num_samples,
        num_columns,
        ADDS=adds,
        SAMPLES=samples,
        COLUMNS=columns,
        enable_fp_fusion=False,
    )
