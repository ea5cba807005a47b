"""Triton's kernels of `dlrmbench::update_sorted`; imported only where they are launched.

Tests run them by Triton's interpreter and compile them for GPUs. They have not run on one.

Lookups are walked in blocks of their sorted order, a program per block. A run of equal rows that begins and ends in
a block is applied by that block. Of one that a block's edge cuts, each block leaves its piece in `edges`
[2 * blocks, d], block b at 2 b of its first run, at 2 b + 1 of its last, and a second kernel adds these in order. So
each row is written once, nothing is added atomically, and sums repeat bit for bit.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def _apply_row(weight, state, row, total, columns, within, lr, eps, D: tl.constexpr, STATE: tl.constexpr):
    """Update a row by its summed gradient; STATE is how many sums of squares a row has: 0, 1 or D."""
    row = row.to(tl.int64)
    place = row * D + columns
    if STATE == 1:
        squares = tl.load(state + row) + tl.sum(total * total, 0) / D
        tl.store(state + row, squares)
        total = total / (tl.sqrt(squares) + eps)
    if STATE > 1:
        squares = tl.load(state + place, mask=within, other=1.0) + total * total
        tl.store(state + place, squares, mask=within)
        total = total / (tl.sqrt(squares) + eps)
    tl.store(weight + place, tl.load(weight + place, mask=within, other=0.0) - lr * total, mask=within)


@triton.jit
def _walk_blocks(
    ordered, order, bags, gradients, weight, state, edges, rate, eps, num_lookups, hot,
    BAGS: tl.constexpr, D: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr, STATE: tl.constexpr,
):  # fmt: skip
    """Sum and apply the runs of a block. WIDTH is the power of two that holds D."""
    block = tl.program_id(0)
    start = block * BLOCK
    stop = tl.minimum(start + BLOCK, num_lookups)
    columns = tl.arange(0, WIDTH)
    within = columns < D
    lr = tl.load(rate)
    edge = edges + block.to(tl.int64) * 2 * D + columns
    row = tl.load(ordered + start)
    is_cut = (start > 0) & (tl.load(ordered + tl.maximum(start - 1, 0)) == row)
    total = tl.zeros([WIDTH], tl.float32)
    for place in range(start, stop):
        here = tl.load(ordered + place)
        if here != row:
            if is_cut:
                tl.store(edge, total, mask=within)
            else:
                _apply_row(weight, state, row, total, columns, within, lr, eps, D, STATE)
            total = tl.zeros([WIDTH], tl.float32)
            row = here
            is_cut = start < 0
        lookup = tl.load(order + place).to(tl.int32)
        bag = (lookup // hot).to(tl.int64) * BAGS + tl.load(bags + lookup % hot)
        total += tl.load(gradients + bag * D + columns, mask=within, other=0.0).to(tl.float32)
    goes_on = (stop < num_lookups) & (tl.load(ordered + tl.minimum(stop, num_lookups - 1)) == row)
    if is_cut:
        tl.store(edge, total, mask=within)
    else:
        if goes_on:
            tl.store(edge + D, total, mask=within)
        else:
            _apply_row(weight, state, row, total, columns, within, lr, eps, D, STATE)


@triton.jit
def _close_runs(
    ordered, weight, state, edges, rate, eps, num_lookups,
    D: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr, PIECES: tl.constexpr, STATE: tl.constexpr,
):  # fmt: skip
    """Add the pieces of the run that begins in a block and goes on beyond it, PIECES at a time, and apply it."""
    block = tl.program_id(0)
    start = block * BLOCK
    stop = tl.minimum(start + BLOCK, num_lookups)
    row = tl.load(ordered + stop - 1)
    begins = (start == 0) | (tl.load(ordered + tl.maximum(start - 1, 0)) != row)
    goes_on = (stop < num_lookups) & (tl.load(ordered + tl.minimum(stop, num_lookups - 1)) == row)
    if begins & goes_on:
        columns = tl.arange(0, WIDTH)
        within = columns < D
        total = tl.load(edges + (block.to(tl.int64) * 2 + 1) * D + columns, mask=within, other=0.0)
        first = block + 1
        while goes_on:
            blocks = first + tl.arange(0, PIECES)
            is_mine = tl.load(ordered + blocks * BLOCK, mask=blocks * BLOCK < num_lookups, other=-1) == row
            places = blocks.to(tl.int64)[:, None] * 2 * D + columns[None, :]
            total += tl.sum(tl.load(edges + places, mask=is_mine[:, None] & within[None, :], other=0.0), 0)
            first += PIECES
            goes_on = tl.sum(is_mine.to(tl.int32), 0) == PIECES
        _apply_row(weight, state, row, total, columns, within, tl.load(rate), eps, D, STATE)


def launch(
    ordered: torch.Tensor, order: torch.Tensor, bags: torch.Tensor, gradients: torch.Tensor, weight: torch.Tensor,
    state: torch.Tensor | None, edges: torch.Tensor, rate: torch.Tensor, eps: float, *, block: int, pieces: int,
) -> None:  # fmt: skip
    """Launch both kernels: see `reference_models.fused.sorted_update`."""
    num_lookups, dim = len(ordered), weight.shape[1]
    grid = (triton.cdiv(num_lookups, block),)
    sizes = {"D": dim, "WIDTH": triton.next_power_of_2(dim), "BLOCK": block}
    sizes |= {"STATE": 0 if state is None else state.shape[1], "num_warps": 1, "enable_fp_fusion": False}
    state = weight if state is None else state
    _walk_blocks[grid](
        ordered, order, bags, gradients, weight, state, edges, rate, eps, num_lookups, len(bags),
        BAGS=gradients.shape[1], **sizes,
    )  # fmt: skip
    _close_runs[grid](ordered, weight, state, edges, rate, eps, num_lookups, PIECES=pieces, **sizes)
