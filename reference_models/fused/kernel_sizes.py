"""How much of a batch one program of Triton's kernels does: all that a tuning sweep may set.

Each operator takes `KernelSizes`; without them it asks `choose_sizes`, whose constants are chosen by thought, not
measured. Sums are added in an order that follows from the sizes: results repeat bit for bit on one kind of GPU.
"""

from dataclasses import dataclass

import torch

H100_MULTIPROCESSORS = 132
"""Multiprocessors of an H100 (SXM) or H200, whose sizes Triton's interpreter and tensors without memory get."""
LEAST_BLOCK, MOST_BLOCK = 16, 256
"""Least: what a block looks up once stays small beside its lookups. Most: a frequent row is cut less often."""
UPDATE_PROGRAMS = 64
"""Programs of the update for each multiprocessor, of which 32 are resident at once."""
PIECES, TILE, COLUMNS, WARPS = 16, 8, 256, 2
MOST_SAMPLES = 64
CROSS_PROGRAMS = 4
"""At least so many programs of a cross layer's gradients for each multiprocessor, where there are enough samples."""


@dataclass(frozen=True, slots=True)
class KernelSizes:
    """What one program does; all are powers of two."""

    block: int
    """Sorted lookups that a program of the update walks."""
    pieces: int
    """Pieces of a row that blocks cut which are added at a time."""
    tile: int
    """Rows of a bag that are read at once."""
    samples: int
    """Samples of a cross layer's gradients, one after the other."""
    columns: int
    """Columns of a cross layer's gradients, side by side."""
    warps: int
    """Warps of a cross layer's gradients. The other kernels have one: see `reference_models.fused.triton_update`."""


def choose_sizes(
    *,
    num_lookups: int = 1,
    num_samples: int = 1,
    num_columns: int = 1,
    num_multiprocessors: int = H100_MULTIPROCESSORS,
) -> KernelSizes:
    """Choose sizes for a batch's lookups, or for a cross layer of [samples, columns], that keep the device busy."""
    block = _power_of_two(num_lookups // (UPDATE_PROGRAMS * num_multiprocessors))
    programs_of_columns = -(-num_columns // COLUMNS)
    samples = _power_of_two(num_samples * programs_of_columns // (CROSS_PROGRAMS * num_multiprocessors))
    return KernelSizes(
        block=min(max(block, LEAST_BLOCK), MOST_BLOCK),
        pieces=PIECES,
        tile=TILE,
        samples=min(samples, MOST_SAMPLES),
        columns=COLUMNS,
        warps=WARPS,
    )


def count_multiprocessors(device: torch.device) -> int:
    """Count a CUDA device's multiprocessors; H100_MULTIPROCESSORS for any other device."""
    if device.type != "cuda":
        return H100_MULTIPROCESSORS
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


def _power_of_two(number: int) -> int:
    """Return the greatest that is not above `number`, or 1."""
    return 1 << max(number, 1).bit_length() - 1
