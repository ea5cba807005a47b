"""Placement tasks (embedding tables to place on devices): of a benchmark's tables, from files of the paper
NeuroShard, or drawn at random as NeuroShard's generator does.

Functions that make tasks take an `empty` task, which has the devices and the batch size but no tables.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr

from reference_models.config.sections import DataConfig
from reference_models.data.synthetic.config import ZIPF_EXPONENT
from reference_models.data.table_file import TableEntry
from reference_models.data.traces.trace import AccessTrace
from reference_models.distributed.search.costs import BIN_LOOKUPS
from reference_models.distributed.search.task import NUM_REUSE_BINS, EmbeddingTable, Optimizer, Task
from reference_models.process.errors import ConfigError, DatasetError
from reference_models.process.open_file import read_regular

NEUROSHARD = Task(name="neuroshard", tables=(), num_devices=4, memory_bytes=4 << 30, batch_size=65536)
"""Placement task without tables that has the devices and the batch size of NeuroShard's released tasks."""
_NUM_TABLES = 856
_MAX_FILE_BYTES = 64 << 20
_MAX_DIM = 1 << 16
_MAX_TASKS = 10_000
_MAX_TABLES = 10_000
"""Maximum number of tables of a placement task: NeuroShard has 856. The time of a step of local search grows with the
square of this number."""
_MAX_LOOKUPS = 1 << 31
"""Maximum number of lookups of a table in a batch: with more, scipy's binomial distribution returns NaN."""
_MAX_DRAWS = 1000
_NUM_BLOCKS = 256
_AMOUNT = Annotated[float, msgspec.Meta(ge=0, le=2**40)]
_NAMES = ("row", "pooling_factor", *(f"bin_{number}" for number in range(NUM_REUSE_BINS)))
_ENTRY: Any = msgspec.defstruct("Entry", [(name, _AMOUNT) for name in _NAMES])


def task_of(
    empty: Task, data: DataConfig, num_embeddings: Sequence[int], dim: int, opt_name: str, trace: AccessTrace | None
) -> Task:
    """Return the placement task of a benchmark's tables. With an id map, `data` and `num_embeddings` have the mapped
    tables' sizes.

    Reuse (how often a batch looks up the same row) is counted in the trace. Without a trace, reuse follows Zipf's
    law: with the data's exponent or, if the data has none, with the exponent of synthetic data. Raises ConfigError if
    the trace is of other tables, if there are no tables, or if the tables exceed the memory of all devices.
    """
    if trace is not None and trace.num_rows != tuple(num_embeddings):
        raise ConfigError(f"the trace is of other tables than those of {empty.name}. Trace {empty.name} itself.")
    exponent = float(data.parameters.get("zipf_exponent", ZIPF_EXPONENT))
    optimizer: Optimizer = "sgd" if opt_name == "sgd" else "adagrad" if opt_name == "adagrad" else "rowwise_adagrad"
    tables = [
        EmbeddingTable(
            num_embeddings=rows,
            dim=dim,
            pooling=float(hot),
            optimizer=optimizer,
            reuse=zipf_reuse(rows, exponent, empty.batch_size * hot)
            if trace is None
            else traced_reuse(trace, number, empty.batch_size),
        )
        for number, (rows, hot) in enumerate(zip(num_embeddings, data.multi_hot, strict=True))
    ]
    return check_task(replace(empty, tables=tuple(tables)))


def check_task(task: Task) -> Task:
    """Return the placement task unchanged, if its devices together have memory for its tables.

    Raises ConfigError if the devices have too little memory, or if the task has no tables.
    """
    if not task.tables:
        raise ConfigError(f"{task.name} has no embedding tables: there is nothing to place.")
    need, memory = sum(table.memory_bytes for table in task.tables), task.num_devices * task.memory_bytes
    if need > memory:
        raise ConfigError(
            f"{task.name}: its tables need {need:,} bytes with their optimizer's state, {task.num_devices} devices "
            f"have {memory:,} for tables: {need - memory:,} bytes too few. Take more or larger devices."
        )
    return task


def keep_tables(task: Task, kept: Sequence[tuple[int, int]]) -> Task:
    """Return the placement task with some tables fixed on devices, as (table, device) pairs in `kept`; no search
    moves them.

    Raises ConfigError for an unknown table or device, a table named twice, or kept tables that exceed a device's
    memory.
    """
    for table, device in kept:
        if not (0 <= table < len(task.tables) and 0 <= device < task.num_devices):
            raise ConfigError(
                f"table {table} cannot be kept on device {device}: there are {len(task.tables)} tables and "
                f"{task.num_devices} devices, from 0."
            )
    if len(dict(kept)) < len(kept):
        raise ConfigError("a table is kept on two devices. Name each table once.")
    for device in sorted({device for _, device in kept}):
        need = sum(task.tables[table].memory_bytes for table, on in kept if on == device)
        if need > task.memory_bytes:
            raise ConfigError(
                f"the tables kept on device {device} need {need:,} bytes, and it has {task.memory_bytes:,}: "
                f"{need - task.memory_bytes:,} bytes too few. Keep fewer there."
            )
    return replace(task, kept=tuple(kept))


def describe_tables(tables: Sequence[TableEntry], empty: Task) -> Task:
    """Return the placement task of the embedding tables that a file describes.

    If the file does not state them, reuse (how often a batch looks up the same row) is as in synthetic data, and the
    optimizer is row-wise Adagrad. Raises ConfigError if tables are not fp32, if there are none or too many, or if
    they exceed the memory of all devices.
    """
    if len(tables) > _MAX_TABLES:
        raise ConfigError(f"{tables[_MAX_TABLES].place}: expected at most {_MAX_TABLES:,} tables. Leave some out.")
    found = []
    for entry in tables:
        assert entry.width is not None and entry.pooling is not None
        if entry.precision not in (None, "fp32"):
            raise ConfigError(
                f"{entry.place}: precision: found {entry.precision}, expected fp32, which tables are trained in. "
                "Write fp32, or leave the column out, to place them as such."
            )
        exponent = ZIPF_EXPONENT if entry.zipf_exponent is None else entry.zipf_exponent
        num_lookups = max(1, round(empty.batch_size * entry.pooling))
        if num_lookups >= _MAX_LOOKUPS:
            raise ConfigError(
                f"{entry.place}: {num_lookups:,} lookups of a batch, expected fewer than 2^31. Take a smaller "
                "--batch-size."
            )
        found.append(
            EmbeddingTable(
                num_embeddings=entry.rows,
                dim=entry.width,
                pooling=entry.pooling,
                reuse=zipf_reuse(entry.rows, exponent, num_lookups),
                optimizer=entry.optimizer or "rowwise_adagrad",
            )
        )
    return check_task(replace(empty, tables=tuple(found)))


def zipf_reuse(num_rows: int, exponent: float, num_lookups: int) -> tuple[float, ...]:
    """Return the mean share of a table's lookups in each bin of reuse (how often a batch looks up the same row), for
    n independent Zipf-distributed lookups.

    As in synthetic data, row r is looked up with probability p_r, proportional to the integral of x^-exponent from r
    to r + 1. Its number c of lookups is then binomial. The share of lookups in the bin low < c <= high is the sum
    over rows of p_r (F(high - 1) - F(low - 1)), with F the distribution function of the binomial (n - 1, p_r). Rows
    of nearly equal p are computed as one block.
    """
    edges = np.unique(np.geomspace(1, num_rows + 1, _NUM_BLOCKS).round())
    law = np.log(edges) if exponent == 1 else edges ** (1 - exponent)
    chances = np.diff(law) / (law[-1] - law[0])
    of_row, others = np.minimum(chances / np.diff(edges), 1), num_lookups - 1
    highs = 2.0 ** np.arange(NUM_REUSE_BINS - 1) - 1
    below = [bdtr(high, others, of_row) if high < others else np.ones_like(of_row) for high in highs]
    shares = np.diff([np.zeros_like(of_row), *below, np.ones_like(of_row)], axis=0) @ chances
    return _share(shares)


def traced_reuse(trace: AccessTrace, table: int, batch_size: int) -> tuple[float, ...]:
    """Return the share of a table's lookups in each bin of reuse (how often a batch looks up the same row), counted
    in an access trace. Only whole batches are counted; a trace shorter than a batch is counted as one."""
    first, bags = table * trace.num_bags, trace.num_bags
    lookups = np.zeros(NUM_REUSE_BINS)
    for start, stop in pairwise(trace.offsets[first : first + bags + 1 : min(batch_size, bags)].tolist()):
        counts = np.unique(trace.indices[start:stop], return_counts=True)[1]
        bins = np.minimum(np.ceil(np.log2(counts)).astype(np.int64), NUM_REUSE_BINS - 1)
        lookups += np.bincount(bins, counts, NUM_REUSE_BINS)
    return _share(lookups)


def _share(weights: NDArray[np.float64]) -> tuple[float, ...]:
    """Return the reuse bins' weights divided by their sum; without any weight, all of it is in the first bin."""
    if not weights.any():
        weights = np.eye(1, NUM_REUSE_BINS)[0]
    return tuple((weights / weights.sum()).tolist())


def read_tasks(path: Path, tables: Path, empty: Task) -> list[Task]:
    """Read placement tasks in the format of NeuroShard's files: one task per line, `ids dims`.

    The ids number tables in NeuroShard's table_configs.json; dims are the tables' numbers of columns. NeuroShard's
    tables have no optimizer state. Raises DatasetError if a file is invalid; the message names the file and the line
    or table. Raises ConfigError if a file has no tables or tasks, or if tables exceed the memory of all devices.
    """
    if not (known := _read_tables(tables)):
        raise ConfigError(f"{tables} has no tables: expected a list of them.")
    tasks = []
    for number, line in enumerate(_read(path).decode(errors="replace").splitlines(), 1):
        try:
            ids, dims = ([int(word) for word in part.split(",")] for part in line.split())
            pairs = [*zip(ids, dims, strict=True)]
            if len(pairs) > _MAX_TABLES:
                raise DatasetError(
                    f"{path}:{number}: {len(pairs):,} tables, expected at most {_MAX_TABLES:,}. Leave some out."
                )
            if not all(0 <= each < len(known) and 1 <= dim <= _MAX_DIM for each, dim in pairs):
                raise ValueError
        except DatasetError:
            raise
        except ValueError:
            expected = f"'ids dims', as many of both, ids below {len(known)}, dims from 1 to {_MAX_DIM}"
            raise DatasetError(f"{path}:{number}: {line!r:.80}: expected {expected}.") from None
        chosen = tuple(known[each].with_columns(dim) for each, dim in pairs)
        tasks.append(check_task(replace(empty, name=f"{path.name}:{number}", tables=chosen)))
        if len(tasks) > _MAX_TASKS:
            raise DatasetError(f"{path}:{number}: expected at most {_MAX_TASKS:,} tasks. Leave some out.")
    if not tasks:
        raise ConfigError(f"{path} has no tasks: expected a line of 'ids dims' for each.")
    return tasks


def _read(path: Path) -> bytes:
    try:
        return read_regular(path, _MAX_FILE_BYTES, follows=True)
    except OSError as error:
        raise DatasetError(f"{path}: cannot be read: {error.strerror}.") from None


def _read_tables(path: Path) -> list[EmbeddingTable]:
    """Return the tables of NeuroShard's file. The file counts a table's rows in bins of reuse (how often a batch
    looks up the same row). From these, lookups are counted: a row of a bin has as many as BIN_LOOKUPS says."""
    content = _read(path)
    try:
        found = map(msgspec.structs.astuple, msgspec.json.decode(content, type=list[_ENTRY]))
    except (ValueError, RecursionError) as error:
        raise DatasetError(f"{path}: expected a JSON list of tables, as NeuroShard writes it: {error}.") from None
    return [
        EmbeddingTable(
            num_embeddings=max(1, int(rows)),
            dim=1,
            pooling=pooling,
            reuse=_share(np.array(bins) * BIN_LOOKUPS),
            optimizer="sgd",
        )
        for rows, pooling, *bins in found
    ]


def generate_tasks(
    num_tasks: int, seed: int, empty: Task = NEUROSHARD, num_tables: tuple[int, int] = (10, 60)
) -> list[Task]:
    """Draw placement tasks of random tables, as NeuroShard's released generator does. The tables are drawn at random
    since the files of NeuroShard's own tables are in Git LFS.

    Tasks are drawn as in the released code. The number of a task's tables is drawn from `num_tables` (end excluded).
    Each table is drawn from a pool of 856 tables, and its width from 128, 64, 32, 16, 8 and 4 columns. A task is
    drawn again until its weights leave a quarter of one device's memory free: they take at most 15 of 4 x 4 GiB.

    The pool's tables are random. Their rows are log-uniform from 1,000 to 8,000,000, so that each table fits on a
    device of 4 GiB. Lookups per sample are log-uniform from 1 to 67 (mean 15.7; published 15.8). Zipf exponents are
    uniform from .55 to 1.1, so that a row of a batch is looked up some 7 times (published 6.9).

    Raises ConfigError if no drawn task fits.
    """
    rng = np.random.default_rng(seed)
    rows = np.exp(rng.uniform(np.log(1e3), np.log(8e6), _NUM_TABLES)).astype(np.int64).tolist()
    pooling = np.exp(rng.uniform(0, np.log(67), _NUM_TABLES)).tolist()
    exponents = rng.uniform(0.55, 1.1, _NUM_TABLES).tolist()

    def draw(size: int) -> tuple[EmbeddingTable, ...]:
        for _ in range(_MAX_DRAWS):
            ids, dims = rng.integers(_NUM_TABLES, size=size).tolist(), (4 << rng.integers(6, size=size)).tolist()
            pairs = [*zip(ids, dims, strict=True)]
            if 4 * sum(rows[each] * dim for each, dim in pairs) <= (empty.num_devices - 0.25) * empty.memory_bytes:
                return tuple(make(each, dim) for each, dim in pairs)
        raise ConfigError(f"no {size} tables of {_MAX_DRAWS} draws fit on the devices. Take larger ones.")

    def make(number: int, dim: int) -> EmbeddingTable:
        reuse = zipf_reuse(rows[number], exponents[number], round(empty.batch_size * pooling[number]))
        return EmbeddingTable(
            num_embeddings=rows[number], dim=dim, pooling=pooling[number], reuse=reuse, optimizer="sgd"
        )

    sizes = rng.integers(*num_tables, size=num_tasks).tolist()
    return [replace(empty, name=f"task {number}", tables=draw(size)) for number, size in enumerate(sizes)]
