"""Make access traces (embedding lookups) from a dataset's split, a file of lookups, or a stack-distance profile."""

import gzip
import io
import math
import zlib
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from reference_models.data.store.dataset import ClickDataset
from reference_models.data.traces.tensors import load_tensors
from reference_models.data.traces.trace import AccessTrace, Ids
from reference_models.process.errors import DatasetError
from reference_models.process.open_file import open_regular, read_regular

_COPIES = 4
"""Number of copies of a file's lookups that are in memory at once: the unpacked file, its bytes, its tensors, and the
trace."""
_MOST_BLOCKS = 1 << 20
"""Maximum number of blocks into which `expect_touched` groups a table's rows. The rows of a block have nearly equal
access probabilities."""
_MAX_PROFILE_BYTES = 16 << 20
"""Maximum size in bytes of a reuse-profile file: that is some two million rows, which dlrm writes as one line."""


def trace_split(split: ClickDataset, num_samples: int, place: str) -> AccessTrace:
    """Return the embedding lookups of a split's first `num_samples` samples as a trace. Raises DatasetError for a row
    outside its table."""
    hots, ids = split.multi_hot, split.read(0, num_samples).ids.numpy().astype(np.int64)
    ends = np.cumsum([0, *hots])
    trace = AccessTrace(
        num_rows=tuple(split.num_embeddings),
        num_bags=num_samples,
        indices=np.concatenate([ids[:, start:stop].reshape(-1) for start, stop in pairwise(ends)]),
        offsets=np.concatenate(([0], np.cumsum(np.repeat(hots, num_samples)))).astype(np.int64),
    )
    trace.check(place)
    return trace


def expect_touched(num_rows: int, exponent: float, num_draws: int) -> tuple[float, float]:
    """Return the mean and the standard deviation of the number of distinct rows that `num_draws` lookups of a table
    touch. The lookups are drawn by a power law, as for synthetic data.

    The mean is the sum over all rows of 1 - (1 - p)^n for n lookups. A row's probability p is the share of the power
    law's integral between the row's rank and the next. In a table of many rows, neighbouring ranks with nearly equal
    p are computed as one block.
    """
    places = np.arange(1.0, num_rows + 2.0) if num_rows <= _MOST_BLOCKS else _find_blocks(num_rows)
    law = np.log(places) if exponent == 1.0 else places ** (1.0 - exponent)
    rows = np.diff(places)
    chances = np.diff(law) / (law[-1] - law[0]) / rows
    touched = -np.expm1(num_draws * np.log1p(-np.minimum(chances, 1 - 1e-12)))
    return float((rows * touched).sum()), math.sqrt(float((rows * touched * (1 - touched)).sum()))


def _find_blocks(num_rows: int) -> NDArray[np.float64]:
    return np.unique(np.geomspace(1.0, num_rows + 1.0, _MOST_BLOCKS).round())


def read_lookups(path: Path, available_bytes: int) -> AccessTrace:
    """Read a .pt or .pt.gz file of facebookresearch/dlrm_datasets: the tensors indices, offsets and lengths.

    The numbers of rows are the highest index plus one, a lower bound, since the files do not state them. Raises
    DatasetError if the file has another form, holds anything but tensors, or has offsets that do not fit. Raises
    MemoryError if reading it takes more than `available_bytes`.
    """
    with open_regular(path, follows=True) as file:
        whole = _unzip(file, available_bytes) if path.suffix == ".gz" else file
        try:
            found, num_bytes = load_tensors(whole, available_bytes // _COPIES)
            arrays = _take_tensors(found, num_bytes, path)
        except Exception as error:  # an untrusted file may raise anything in its reader
            if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and "memory" in str(error)):
                raise MemoryError from None
            if isinstance(error, DatasetError):
                raise
            why = str(error).partition("\n")[0][:200] or type(error).__name__
            raise DatasetError(f"{path}: {why}; expected tensors as torch.save writes them.") from None
    indices, offsets, lengths = arrays
    num_tables, num_bags = lengths.shape
    trace = AccessTrace(num_rows=(), num_bags=num_bags, indices=indices, offsets=offsets)
    trace.check(str(path))
    if (other := np.flatnonzero(np.diff(offsets) != lengths.reshape(-1))).size:
        table, bag = divmod(int(other[0]), num_bags)
        raise DatasetError(
            f"{path}: table {table}, bag {bag}: length {lengths[table, bag]}, expected the difference of its offsets."
        )
    num_rows = tuple(int(trace.rows_of(table).max(initial=0)) + 1 for table in range(num_tables))
    trace = replace(trace, num_rows=num_rows, are_rows_least=True)
    trace.check(str(path))
    return trace


def _unzip(file: BinaryIO, available_bytes: int) -> BinaryIO:
    whole = io.BytesIO()
    try:
        with gzip.open(file) as packed:
            while block := packed.read(1 << 22):
                whole.write(block)
                if _COPIES * whole.tell() > available_bytes:
                    raise MemoryError
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DatasetError(f"{file.name}: {str(error) or 'damaged'}; expected a whole gzip file.") from None
    whole.seek(0)
    return whole


def _take_tensors(found: Any, num_bytes: int, path: Path) -> list[Ids]:
    """Return the tensors in `found` as int64 arrays: indices [lookups], offsets [T * B + 1], lengths [T, B]. Raises
    DatasetError if the tensors are not as expected, or hold more than `num_bytes` bytes.

    `num_bytes` is the size of the tensor data in the file. Tensors whose shapes ask for more bytes would read memory
    beyond the file's data.
    """
    import torch

    is_right = isinstance(found, tuple | list) and len(found) == 3
    if not is_right or not all(
        isinstance(each, torch.Tensor)
        and each.dtype in (torch.int64, torch.int32)
        and each.device.type == "cpu"
        and each.layout == torch.strided
        and not each.is_nested
        and each.is_contiguous()
        for each in found
    ):
        raise DatasetError(
            f"{path}: expected a tuple of three tensors of whole numbers, contiguous: indices, offsets, lengths."
        )
    storages = {each.untyped_storage().data_ptr(): each.untyped_storage().nbytes() for each in found}
    if sum(storages.values()) > num_bytes:
        raise DatasetError(
            f"{path}: shapes of its tensors ask for more than the {num_bytes:,} bytes of tensor data that it holds."
        )
    indices, offsets, lengths = arrays = [each.numpy().astype(np.int64, copy=False) for each in found]
    if lengths.ndim != 2 or indices.ndim != 1 or offsets.shape != (lengths.size + 1,) or not indices.size:
        shapes = ", ".join(str(array.shape) for array in arrays)
        raise DatasetError(
            f"{path}: shapes {shapes}, expected indices [lookups], offsets [T * B + 1], lengths [T, B]."
        )
    return arrays


def read_profile(path: Path) -> tuple[int, NDArray[np.int64], NDArray[np.float64]]:
    """Read a reuse profile in the format of dlrm's --data-trace-file. Its three lines are rows, stack distances, and
    the cumulative shares of lookups with these distances. Return (number of rows, distances, shares).

    The first lookup of a row has distance 0. Another lookup has distance d if its row is the d-th from the top of an
    LRU stack. Raises DatasetError naming the line if the format is wrong, or if the file exceeds 16 MiB.
    """
    lines = read_regular(path, _MAX_PROFILE_BYTES, follows=True).decode("utf-8", errors="replace").splitlines()[:4]
    try:
        rows, distances, shares = (np.array(line.split(","), dtype=float) for line in lines)
    except ValueError:
        raise DatasetError(f"{path}: expected three lines of numbers with commas: rows, distances, shares.") from None
    rise = np.diff(distances, prepend=-1)
    if distances.shape != shares.shape or not (rise > 0).all() or (distances % 1 != 0).any():
        raise DatasetError(f"{path}:2: expected rising whole distances, one per share of line 3.")
    if distances[-1] > len(rows):
        raise DatasetError(f"{path}:2: distance {distances[-1]:g}, but line 1 has {len(rows)} rows.")
    if not ((np.diff(shares, prepend=0) >= 0).all() and abs(shares[-1] - 1) < 1e-3):
        raise DatasetError(f"{path}:3: expected shares that rise to 1.")
    return len(rows), distances.astype(np.int64), shares / shares[-1]


def generate_reuse(
    num_rows: int, distances: NDArray[np.int64], shares: NDArray[np.float64], num_lookups: int, seed: int
) -> AccessTrace:
    """Draw lookups of one table, one per sample, whose stack distances follow a profile as `read_profile` returns it.

    A distance of 0, or one that exceeds the number of rows looked up so far, takes a row that was not looked up
    before. Once all rows of the table were looked up, a distance of 0 takes the row looked up least recently. The
    table may have more rows than the profile, which lists only rows that were looked up.
    """
    drawn = np.random.default_rng(seed).random(num_lookups)
    asked = distances[np.minimum(np.searchsorted(shares, drawn, side="right"), len(distances) - 1)]
    stack: list[int] = []
    rows = np.empty(num_lookups, np.int64)
    for number, distance in enumerate(asked.tolist()):
        if (distance == 0 or distance > len(stack)) and len(stack) < num_rows:
            row = len(stack)
        else:
            row = stack.pop(-distance if distance else 0)
        stack.append(row)
        rows[number] = row
    return AccessTrace(
        num_rows=(num_rows,),
        num_bags=num_lookups,
        indices=rows,
        offsets=np.arange(num_lookups + 1, dtype=np.int64),
        are_rows_least=True,
    )
