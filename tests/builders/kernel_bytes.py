"""How many bytes Triton's kernels load and store, whatever a cache saves of them."""

from dataclasses import dataclass

import torch

from reference_models.fused.dense_kernels import num_parts
from reference_models.fused.sorted_update import num_edges

_INDEX_BYTES = 8
"""Of a place in the sort's result."""
_BAG_BYTES = _FLOAT_BYTES = 4


@dataclass(frozen=True, slots=True)
class Runs:
    """What the ids of a batch mean to the update: how many rows they name, and how blocks cut their runs."""

    num_lookups: int
    num_rows: int
    block: int
    """Lookups of a block."""
    cut: tuple[tuple[int, int], ...]
    """Of each run that goes on beyond the block in which it begins: that block, and how many more it enters."""


def find_runs(ordered: torch.Tensor, block_size: int) -> Runs:
    """Find the runs of sorted rows [n], walked in blocks of `block_size`."""
    firsts, lasts = ordered[::block_size].tolist(), ordered[block_size - 1 :: block_size].tolist()
    cut: list[tuple[int, int]] = []
    for block in range(1, len(firsts)):
        if firsts[block] != lasts[block - 1]:
            continue
        if cut and sum(cut[-1]) == block - 1 and firsts[block] == firsts[block - 1]:
            cut[-1] = cut[-1][0], cut[-1][1] + 1
        else:
            cut.append((block - 1, 1))
    return Runs(len(ordered), 1 + int((ordered[1:] != ordered[:-1]).sum()), block_size, tuple(cut))


def update_bytes(runs: Runs, dim: int, *, key_bytes: int, gradient_bytes: int, state_size: int, pieces: int) -> int:
    """Count the bytes that the operator's kernels load and store, whatever a cache saves of them.

    With n lookups, u rows, b blocks, and c cut runs of p pieces: n (key + place + bag + d gradients) +
    2 u (d + state) floats + 2 p d floats + what each block looks up once, b (6 keys + rate), and what closing a cut
    run looks up, c rates and a key of each block that is asked for a piece, `pieces` at a time. `state_size` is 0, 1
    or `dim`.
    """
    num_blocks = num_edges(runs.num_lookups, runs.block) // 2
    num_pieces = sum(1 + further for _, further in runs.cut)
    asked = sum(min((further // pieces + 1) * pieces, num_blocks - block - 1) for block, further in runs.cut)
    return (
        runs.num_lookups * (key_bytes + _INDEX_BYTES + _BAG_BYTES + dim * gradient_bytes)
        + 2 * _FLOAT_BYTES * (runs.num_rows * (dim + state_size) + num_pieces * dim)
        + num_blocks * (6 * key_bytes + _FLOAT_BYTES)
        + len(runs.cut) * _FLOAT_BYTES
        + asked * key_bytes
    )


def read_bytes(num_samples: int, num_bags: int, num_lookups: int, dim: int, *, key_bytes: int, out_bytes: int) -> int:
    """Count the bytes that `read_bags` loads and stores, whatever a cache saves of them, of `num_lookups` in all."""
    return num_lookups * (key_bytes + _FLOAT_BYTES * dim) + num_samples * num_bags * (8 + dim * out_bytes)


def cross_bytes(num_samples: int, num_columns: int, element_bytes: int, *, adds: bool, samples: int) -> int:
    """Count the bytes that `cross_gradients`'s kernel loads and stores, with `samples` in a program."""
    parts = num_parts(num_samples, samples) * num_columns * _FLOAT_BYTES
    return num_samples * num_columns * element_bytes * (6 if adds else 5) + parts
