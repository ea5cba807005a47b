"""Triton kernels that sum bags of table rows and compute a cross layer's gradients; imported only when they are
launched.

Tests run the kernels by Triton's interpreter and compile them for GPUs. The kernels have not run on a GPU.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def _read_bags(
    rows, starts, weight, out, hot,
    BAGS: tl.constexpr, D: tl.constexpr, WIDTH: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """Sum the table rows of one bag of a sample, TILE at a time, so that several loads overlap.

    D is the width of a row, WIDTH a power of two of at least D.
    """
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
def _differentiate_sample(dy, x_0, z, dx_0, place, within, ADDS: tl.constexpr):
    """Return a cross layer's gradients of x_0 and z in some columns of one sample; zeros for columns beyond the
    matrix (`within` is false)."""
    gradient = tl.load(dy + place, mask=within, other=0.0).to(tl.float32)
    added = gradient * tl.load(z + place, mask=within, other=0.0).to(tl.float32)
    if ADDS:
        added += tl.load(dx_0 + place, mask=within, other=0.0).to(tl.float32)
    return added, gradient * tl.load(x_0 + place, mask=within, other=0.0).to(tl.float32)


@triton.jit(do_not_specialize=["samples"])
def _cross_gradients(
    dy, x_0, z, dx_0, parts, num_samples, num_columns, samples, ADDS: tl.constexpr, COLUMNS: tl.constexpr
):
    """Compute a cross layer's gradients for `samples` samples and COLUMNS columns. The layer's output is x_0 z + x,
    with the linear map z, and dy is its gradient. The gradient of x_0 (dy z) is written to dx_0, or added to it. The
    gradient of z (dy x_0) is written over z, and its sums over the samples to `parts`."""
    begin = tl.program_id(0) * samples
    stop = tl.minimum(begin + samples, num_samples)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    within = columns < num_columns
    total = tl.zeros([COLUMNS], tl.float32)
    for sample in range(begin, stop, 2):
        first = tl.cast(sample, tl.int64) * num_columns + columns
        second, has_second = first + num_columns, columns < tl.where(sample + 1 < stop, num_columns, 0)
        first_dx_0, first_dz = _differentiate_sample(dy, x_0, z, dx_0, first, within, ADDS)
        second_dx_0, second_dz = _differentiate_sample(dy, x_0, z, dx_0, second, has_second, ADDS)
        tl.store(dx_0 + first, first_dx_0.to(dx_0.dtype.element_ty), mask=within)
        tl.store(z + first, first_dz.to(z.dtype.element_ty), mask=within)
        tl.store(dx_0 + second, second_dx_0.to(dx_0.dtype.element_ty), mask=has_second)
        tl.store(z + second, second_dz.to(z.dtype.element_ty), mask=has_second)
        total = total + first_dz + second_dz
    tl.store(parts + tl.program_id(0).to(tl.int64) * num_columns + columns, total, mask=within)


def launch_read(
    rows: torch.Tensor, starts: torch.Tensor, weight: torch.Tensor, out: torch.Tensor, *, tile: int
) -> None:
    """Launch the kernel that writes sums of bags to `out` [B, bags, d]: see
    `reference_models.fused.dense_kernels`."""
    num_samples, num_bags, dim = out.shape
    _read_bags[(num_samples, num_bags)](
        rows, starts, weight, out, len(rows) // num_samples,
        BAGS=num_bags, D=dim, WIDTH=triton.next_power_of_2(dim), TILE=tile, num_warps=1, enable_fp_fusion=False,
    )  # fmt: skip


def launch_cross(
    dy: torch.Tensor, x_0: torch.Tensor, z: torch.Tensor, dx_0: torch.Tensor, parts: torch.Tensor, *,
    adds: bool, samples: int, columns: int, warps: int,
) -> None:  # fmt: skip
    """Launch the kernel that computes a cross layer's gradients: see `reference_models.fused.dense_kernels`."""
    num_samples, num_columns = dy.shape
    grid = (triton.cdiv(num_samples, samples), triton.cdiv(num_columns, columns))
    _cross_gradients[grid](
        dy, x_0, z, dx_0, parts, num_samples, num_columns, samples,
        ADDS=adds, COLUMNS=columns, num_warps=warps, enable_fp_fusion=False,
    )  # fmt: skip
