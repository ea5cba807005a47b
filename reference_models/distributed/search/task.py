"""Placement tasks (embedding tables to place on devices), and plans, which assign the columns of tables to devices.
Torch-free."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from typing import Literal

NUM_REUSE_BINS = 17
"""Number of bins of a table's histogram of lookups by reuse: how often a batch looks up the same row. Bin 0 is for
rows looked up once in a batch. Bin k is for rows looked up more than 2^(k-1) and at most 2^k times. The paper
NeuroShard has the same bins, but counts rows in them, not lookups."""
FLOAT_BYTES = 4

Optimizer = Literal["sgd", "adagrad", "rowwise_adagrad"]
RepairStart = Literal["search", "bytes", "trial"]


@dataclass(frozen=True, kw_only=True, slots=True)
class EmbeddingTable:
    """Embedding table, or some columns of a table, with statistics of how batches look up its rows."""

    num_embeddings: int
    dim: int
    pooling: float
    """Mean number of lookups per sample in the table."""
    reuse: tuple[float, ...]
    """Shares (sum 1) of the table's lookups in a batch by reuse bin, which is how often the batch looks up the same
    row."""
    optimizer: Optimizer = "rowwise_adagrad"

    @property
    def state_floats(self) -> int:
        """Floats of optimizer state per row: 0 for SGD, `dim` for Adagrad, 1 for row-wise Adagrad (in each part, if
        the table is cut by columns)."""
        return {"sgd": 0, "adagrad": self.dim, "rowwise_adagrad": 1}[self.optimizer]

    @property
    def memory_bytes(self) -> int:
        """Bytes of the table's weights and optimizer state in fp32."""
        return self.num_embeddings * (self.dim + self.state_floats) * FLOAT_BYTES

    def with_columns(self, num_columns: int) -> "EmbeddingTable":
        """Return `num_columns` columns of the table as a table of its own."""
        return replace(self, dim=num_columns)


@dataclass(frozen=True, kw_only=True, slots=True)
class TablePart(EmbeddingTable):
    """Part of a table that one device holds, if the table is cut by rows or copied to several devices. Plans of
    TorchRec's planner may have such parts; searches in this package cut tables only by columns.

    The numbers of rows and of lookups per sample are the part's own. Lookups are assumed to be uniform over the
    table's rows.
    """

    layout: Literal["rows", "host_rows", "copy"]
    """Layout of the table: `rows` cut over all devices, `host_rows` cut over the devices of one host, or `copy`: all
    rows on each device, which looks up that device's samples."""
    sample_share: float = 1.0
    """Share, from 0 to 1, of the batch's samples for which this part of the table is looked up."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """Placement task: embedding tables that a search places on equal devices."""

    name: str
    tables: tuple[EmbeddingTable, ...]
    num_devices: int
    memory_bytes: int
    """Bytes of each device's memory for tables' weights and optimizer state."""
    batch_size: int
    """Number of samples of a training step over all devices together."""
    kept: tuple[tuple[int, int], ...] = ()
    """Tables that stay whole on a given device, as (table, device); searches place all other tables."""

    @property
    def digest(self) -> str:
        """SHA-256 of the task's tables, devices and batch size, without its name and `kept` tables: it identifies the
        task that a plan was made for."""
        content = asdict(self)
        del content["name"], content["kept"]
        return sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, kw_only=True, slots=True, order=True)
class TableShard:
    """Shard of a table on one device: neighbouring columns of all rows."""

    table: int
    first_column: int
    num_columns: int
    device: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Repair:
    """How a placement plan was repaired, for a plan in which the search itself found no room for a table."""

    start: RepairStart
    """Plan with which a repair by moves and swaps began: the search's own (`search`), or a new one, made in falling
    order of bytes (`bytes`) or by trying arrangements (`trial`)."""
    num_moves: int
    num_swaps: int

    def __str__(self) -> str:
        counts = [(self.num_moves, "move"), (self.num_swaps, "swap")]
        steps = " and ".join(f"{count} {word}{'s' * (count > 1)}" for count, word in counts if count)
        if self.start == "search":
            return f"repaired by {steps}"
        return f"placed anew by {self.start}" + (f", then {steps}" if steps else "")


@dataclass(frozen=True, kw_only=True, slots=True)
class PlacementPlan:
    """Placement plan: the device of every column of every table, as shards in the order of tables and columns."""

    shards: tuple[TableShard, ...]
    repair: Repair | None = field(default=None, compare=False)
    """Repair that the plan needed after the search; None if the search itself found the plan."""
    bound_s: float | None = field(default=None, compare=False)
    """Proved lower bound for the slowest device's seconds in plans of whole tables; None if none was proved."""

    @property
    def is_cut(self) -> bool:
        """Return whether the plan cuts any table into more than one shard."""
        return len({shard.table for shard in self.shards}) < len(self.shards)

    def sets(self, task: Task) -> list[list[EmbeddingTable]]:
        """Return the tables on each device under the plan; the columns of a cut table on a device are a table of
        their own."""
        held: list[list[EmbeddingTable]] = [[] for _ in range(task.num_devices)]
        for shard in self.shards:
            held[shard.device].append(task.tables[shard.table].with_columns(shard.num_columns))
        return held


def place_whole(task: Task, devices: Sequence[int]) -> PlacementPlan:
    """Return the placement plan that has table i, uncut, on device devices[i]."""
    placed = zip(task.tables, devices, strict=True)
    return PlacementPlan(
        shards=tuple(
            TableShard(table=number, first_column=0, num_columns=table.dim, device=device)
            for number, (table, device) in enumerate(placed)
        )
    )


def list_not_kept(task: Task, plan: PlacementPlan) -> list[tuple[int, int]]:
    """Return the (table, device) pairs of `task.kept` that the plan does not follow: some of the table's columns are
    on another device."""
    away = {shard.table for shard in plan.shards if dict(task.kept).get(shard.table, shard.device) != shard.device}
    return [(table, device) for table, device in sorted(task.kept) if table in away]


def find_fault(task: Task, plan: PlacementPlan) -> str | None:
    """Return the first fault of a placement plan for a task, in words; None for a valid plan.

    Faults are columns left out, placed twice or outside of their table, unknown devices, and too little memory.
    """
    ends = [0] * len(task.tables)
    for shard in sorted(plan.shards):
        if not 0 <= shard.table < len(task.tables):
            return f"table {shard.table}: the task has {len(task.tables)}"
        if not 0 <= shard.device < task.num_devices:
            return f"table {shard.table} is on device {shard.device}: the task has {task.num_devices}"
        if shard.first_column != ends[shard.table] or shard.num_columns < 1:
            return f"table {shard.table}: expected columns from {ends[shard.table]}, found from {shard.first_column}"
        ends[shard.table] += shard.num_columns
    for number, (table, end) in enumerate(zip(task.tables, ends, strict=True)):
        if end != table.dim:
            return f"table {number}: {end} of its {table.dim} columns are placed"
    for device, held in enumerate(plan.sets(task)):
        if (need := sum(table.memory_bytes for table in held)) > task.memory_bytes:
            return f"device {device} would hold {need} bytes of {task.memory_bytes}"
    return None
