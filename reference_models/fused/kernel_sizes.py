"""Sizes of the share of a batch that one program (thread block) of a Triton kernel computes.

Each operator takes `KernelSizes`: a tuning sweep may set them; by default `choose_sizes` does. The constants in
`choose_sizes` are estimates, not measurements. The sizes determine the order in which sums are added, and depend on
the GPU only by its kind. So results repeat bit for bit on one kind of GPU.
"""

from dataclasses import dataclass

import torch

H100_MULTIPROCESSORS = 132
"""Number of multiprocessors of an H100 (SXM) or H200, assumed where there is no GPU: for Triton's interpreter and for
fake tensors."""
LEAST_BLOCK = 16
"""Minimum number of lookups in a block of the table update. It bounds the share of a block's fixed cost in its
time."""
MOST_BLOCK = 256
"""Maximum number of lookups in a block of the table update. It bounds how often block edges cut the lookups of a
frequent row."""
UPDATE_PROGRAMS = 64
"""Number of programs of the table update to aim for, per multiprocessor of a GPU, on which 32 are resident at
once."""
PIECES, TILE, COLUMNS, WARPS = 16, 8, 256, 2
MOST_SAMPLES = 64
CROSS_PROGRAMS = 4
"""Least number of programs, per multiprocessor of a GPU, that compute a cross layer's gradients, if there are enough
samples."""


@dataclass(frozen=True, slots=True)
class KernelSizes:
    """Numbers of rows, samples and columns that one program (thread block) of a Triton kernel works on; all are
    powers of two."""

    block: int
    """Number of sorted lookups that a program of the table update walks through."""
    pieces: int
    """Number of partial sums added at a time for a table row whose lookups are divided among several blocks."""
    tile: int
    """Number of table rows of a bag that a program (instance) of the Triton kernel reads at once."""
    samples: int
    """Number of samples that one program (instance) of the Triton kernel for a cross layer's gradients computes one
    after the other."""
    columns: int
    """Number of columns that one program (instance) of the Triton kernel for a cross layer's gradients computes side
    by side."""
    warps: int
    """Number of warps of one program (instance) of the Triton kernel for a cross layer's gradients. Programs of other
    kernels have one warp: see `fused.triton_update`."""


def choose_sizes(
    *,
    num_lookups: int = 1,
    num_samples: int = 1,
    num_columns: int = 1,
    num_multiprocessors: int = H100_MULTIPROCESSORS,
) -> KernelSizes:
    """Choose kernel sizes that keep the GPU busy, for the table update of `num_lookups`, or for a cross layer of
    [num_samples, num_columns]."""
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
    """Return the greatest power of two that is not above `number`; 1 for a number below 1."""
    return 1 << max(number, 1).bit_length() - 1
