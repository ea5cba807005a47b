"""Share of a batch that one program of a Triton kernel computes, as sizes that a tuning sweep may set.

Each operator takes `KernelSizes`, by default those of `choose_sizes`, whose constants are estimates, not
measurements. Sums are added in an order that follows from the sizes: results repeat bit for bit on one kind of GPU.
"""

from dataclasses import dataclass

import torch

H100_MULTIPROCESSORS = 132
"""Multiprocessors of an H100 (SXM) or H200, assumed where there is no GPU: Triton's interpreter and fake tensors."""
LEAST_BLOCK, MOST_BLOCK = 16, 256
"""Fewest and most lookups in a block of the table update: the fewest bound a block's share of fixed cost, the most
bound how often blocks cut the lookups of a frequent row."""
UPDATE_PROGRAMS = 64
"""Programs of the table update per multiprocessor of a GPU, on which 32 are resident at once."""
PIECES, TILE, COLUMNS, WARPS = 16, 8, 256, 2
MOST_SAMPLES = 64
CROSS_PROGRAMS = 4
"""Least number of programs per multiprocessor that compute a cross layer's gradients, where samples suffice."""


@dataclass(frozen=True, slots=True)
class KernelSizes:
    """Sizes of the share of work of one program (thread block) of a Triton kernel; all are powers of two."""

    block: int
    """Number of sorted lookups that a program of the table update walks through."""
    pieces: int
    """Number of partial sums, of a row whose lookups span several blocks, that are added at a time."""
    tile: int
    """Number of table rows of a bag that a program reads at once."""
    samples: int
    """Number of samples that a program of a cross layer's gradients computes one after the other."""
    columns: int
    """Number of columns that a program of a cross layer's gradients computes side by side."""
    warps: int
    """Number of warps of a program of a cross layer's gradients; other kernels have one: see
    `fused.triton_update`."""


def choose_sizes(
    *,
    num_lookups: int = 1,
    num_samples: int = 1,
    num_columns: int = 1,
    num_multiprocessors: int = H100_MULTIPROCESSORS,
) -> KernelSizes:
    """Choose kernel sizes that keep the GPU busy, for a batch's lookups, or for a cross layer of [samples,
    columns]."""
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
    """Return the number of multiprocessors of a CUDA device; H100_MULTIPROCESSORS for any other device."""
    if device.type != "cuda":
        return H100_MULTIPROCESSORS
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


def _power_of_two(number: int) -> int:
    """Return the greatest power of two that is not above `number`, at least 1."""
    return 1 << max(number, 1).bit_length() - 1
