"""Share of a batch that one program of a Triton kernel computes: the sizes that a tuning sweep may set.

Each operator takes `KernelSizes`, by default those of `choose_sizes`, whose constants are estimates, not
measurements. Sums are added in an order that follows from the sizes: results repeat bit for bit on one kind of GPU.
"""

from dataclasses import dataclass

import torch

H100_MULTIPROCESSORS = 132
"""Multiprocessors of an H100 (SXM) or H200, assumed for Triton's interpreter and for tensors without memory."""
LEAST_BLOCK, MOST_BLOCK = 16, 256
"""Lookups per block: the least bounds a block's share of fixed cost, the most bounds how often a frequent row is
cut."""
UPDATE_PROGRAMS = 64
"""Programs of the update per multiprocessor, on which 32 are resident at once."""
PIECES, TILE, COLUMNS, WARPS = 16, 8, 256, 2
MOST_SAMPLES = 64
CROSS_PROGRAMS = 4
"""Least programs of a cross layer's gradients per multiprocessor, where there are enough samples."""


@dataclass(frozen=True, slots=True)
class KernelSizes:
    """Sizes of the work of one program of a Triton kernel; all are powers of two."""

    block: int
    """Sorted lookups that a program of the update walks."""
    pieces: int
    """Pieces, of a row that blocks cut, that are added at a time."""
    tile: int
    """Rows of a bag that are read at once."""
    samples: int
    """Samples that a program of a cross layer's gradients computes one after the other."""
    columns: int
    """Columns that a program of a cross layer's gradients computes side by side."""
    warps: int
    """Warps per program of a cross layer's gradients. The other kernels have one: see `fused.triton_update`."""


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
    """Return the greatest power of two that is not above `number`, at least 1."""
    return 1 << max(number, 1).bit_length() - 1
