"""Triton kernels of `dlrmbench::update_sorted`, which updates all embedding tables; imported only when they are
launched.

Tests run the kernels by Triton's interpreter and compile them for GPUs. The kernels have not run on a GPU.

Lookups are sorted by row and split into blocks; one program handles a block. A run is a series of lookups of one row.
If a run begins and ends in a block, the block's program updates the row. If a block's edge cuts a run, the programs
of its blocks each store a partial sum of the run in `edges` [2 * blocks, d]: block b stores that of its first run at
2 b, that of its last run at 2 b + 1. A second kernel adds the partial sums in order and updates the row. So each row
is written once, nothing is added atomically, and sums repeat bit for bit.

A program must have only one warp (`_ONE_WARP`). A row-wise sum of squares is a scalar, which each warp of a program
would load and store by itself: a slow warp could read what another warp has written already.
"""

import torch
import triton
import triton.language as tl

_ONE_WARP = 1


@triton.jit
def _apply_row(weight, state, row, total, columns, within, lr, eps, D: tl.constexpr, STATE: tl.constexpr):
    """Update a table row by its summed gradient; STATE is the number of sums of squares of a row: 0, 1 or D.

    All loads come before the first store. Since the compiler does not move a load before a store, a load after the
    first store would make the program wait for memory a second time.
    """
    row = row.to(tl.int64)
    place = row * D + columns
    before = tl.load(weight + place, mask=within, other=0.0)
    if STATE == 1:
        squares = tl.load(state + row) + tl.sum(total * total, 0) / D
        tl.store(state + row, squares)
        total = total / (tl.sqrt(squares) + eps)
    if STATE > 1:
        squares = tl.load(state + place, mask=within, other=1.0) + total * total
        tl.store(state + place, squares, mask=within)
        total = total / (tl.sqrt(squares) + eps)
    tl.store(weight + place, before - lr * total, mask=within)


@triton.jit
def _read_lookup(ordered, order, bags, gradients, place, stop, hot, columns, BAGS: tl.constexpr, D: tl.constexpr):
    """Return the table row and the gradient of the sorted lookup number `place`; zeros if `place` is `stop` or
    more."""
    is_there = place < stop
    row = tl.load(ordered + place, mask=is_there, other=0)
    lookup = tl.load(order + place, mask=is_there, other=0).to(tl.int32)
    bag = (lookup // hot).to(tl.int64) * BAGS + tl.load(bags + lookup % hot, mask=is_there, other=0)
    width = tl.where(is_there, D, 0)
    return row, tl.load(gradients + bag * D + columns, mask=columns < width, other=0.0).to(tl.float32)


@triton.jit
def _take_lookup(
    here, gradient, is_there, row, total, is_cut, edge, weight, state, columns, within, lr, eps,
    D: tl.constexpr, STATE: tl.constexpr,
):  # fmt: skip
    """Add a lookup's gradient to the sum of its run. A run is a sequence of sorted lookups of one table row.

    If the lookup begins a new run, the sum of the run before is finished. It is written to `edge` if the block began
    or ends inside that run, and otherwise the table row is updated.
    """
    if is_there & (here != row):
        if is_cut:
            tl.store(edge, total, mask=within)
        else:
            _apply_row(weight, state, row, total, columns, within, lr, eps, D, STATE)
        total = tl.zeros_like(total)
        row = here
        is_cut = here < 0  # equals no row
    return row, total + gradient, is_cut


@triton.jit
def _walk_blocks(
    ordered, order, bags, gradients, weight, state, edges, rate, eps, num_lookups, hot, size,
    BAGS: tl.constexpr, D: tl.constexpr, WIDTH: tl.constexpr, STATE: tl.constexpr,
):  # fmt: skip
    """Sum the gradients of runs of equal table rows in a block of `size` lookups. Update the row of each run that
    begins and ends in the block; store the sum of a run that the block's edge cuts in `edges`. D is the width of a
    row, WIDTH a power of two of at least D.

    Four lookups are read before the first is used, so that the loads of their gradients overlap.
    """
    block = tl.program_id(0)
    start = block * size
    stop = tl.minimum(start + size, num_lookups)
    columns = tl.arange(0, WIDTH)
    within = columns < D
    lr = tl.load(rate)
    edge = edges + block.to(tl.int64) * 2 * D + columns
    row = tl.load(ordered + start)
    is_cut = (start > 0) & (tl.load(ordered + tl.maximum(start - 1, 0)) == row)
    total = tl.zeros([WIDTH], tl.float32)
    for a in range(start, stop, 4):
        b, c, d = a + 1, a + 2, a + 3
        row_a, gradient_a = _read_lookup(ordered, order, bags, gradients, a, stop, hot, columns, BAGS, D)
        row_b, gradient_b = _read_lookup(ordered, order, bags, gradients, b, stop, hot, columns, BAGS, D)
        row_c, gradient_c = _read_lookup(ordered, order, bags, gradients, c, stop, hot, columns, BAGS, D)
        row_d, gradient_d = _read_lookup(ordered, order, bags, gradients, d, stop, hot, columns, BAGS, D)
        row, total, is_cut = _take_lookup(
            row_a, gradient_a, a < stop, row, total, is_cut, edge, weight, state, columns, within, lr, eps, D, STATE
        )
        row, total, is_cut = _take_lookup(
            row_b, gradient_b, b < stop, row, total, is_cut, edge, weight, state, columns, within, lr, eps, D, STATE
        )
        row, total, is_cut = _take_lookup(
            row_c, gradient_c, c < stop, row, total, is_cut, edge, weight, state, columns, within, lr, eps, D, STATE
        )
        row, total, is_cut = _take_lookup(
            row_d, gradient_d, d < stop, row, total, is_cut, edge, weight, state, columns, within, lr, eps, D, STATE
        )
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
    ordered, weight, state, edges, rate, eps, num_lookups, size,
    D: tl.constexpr, WIDTH: tl.constexpr, PIECES: tl.constexpr, STATE: tl.constexpr,
):  # fmt: skip
    """Add the partial sums of the gradients of a table row whose lookups span several blocks, PIECES at a time;
    update the row."""
    block = tl.program_id(0)
    start = block * size
    stop = tl.minimum(start + size, num_lookups)
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
            is_mine = tl.load(ordered + blocks * size, mask=blocks * size < num_lookups, other=-1) == row
            places = blocks.to(tl.int64)[:, None] * 2 * D + columns[None, :]
            total += tl.sum(tl.load(edges + places, mask=is_mine[:, None] & within[None, :], other=0.0), 0)
            first += PIECES
            goes_on = tl.sum(is_mine.to(tl.int32), 0) == PIECES
        _apply_row(weight, state, row, total, columns, within, tl.load(rate), eps, D, STATE)


def launch(
    ordered: torch.Tensor, order: torch.Tensor, bags: torch.Tensor, gradients: torch.Tensor, weight: torch.Tensor,
    state: torch.Tensor | None, edges: torch.Tensor, rate: torch.Tensor, eps: float, *, block: int, pieces: int,
) -> None:  # fmt: skip
    """Launch both kernels that update the tables: see `reference_models.fused.sorted_update`."""
    num_lookups, dim = len(ordered), weight.shape[1]
    grid = (triton.cdiv(num_lookups, block),)
    sizes = {"D": dim, "WIDTH": triton.next_power_of_2(dim), "STATE": 0 if state is None else state.shape[1]}
    sizes |= {"num_warps": _ONE_WARP, "enable_fp_fusion": False}
    state = weight if state is None else state
    _walk_blocks[grid](
        ordered, order, bags, gradients, weight, state, edges, rate, eps, num_lookups, len(bags), block,
        BAGS=gradients.shape[1], **sizes,
    )  # fmt: skip
    _close_runs[grid](ordered, weight, state, edges, rate, eps, num_lookups, block, PIECES=pieces, **sizes)
