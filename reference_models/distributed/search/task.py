"""Placement tasks (tables and devices), and plans, which assign the columns of tables to devices. Torch-free."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from typing import Literal

NUM_REUSE_BINS = 17
"""Number of reuse bins. Bin 0 counts the lookups of rows looked up once in a batch, bin k those of rows with 2^(k-1)
< lookups <= 2^k. NeuroShard's tables have the same bins, but count rows."""
FLOAT_BYTES = 4

Optimizer = Literal["sgd", "adagrad", "rowwise_adagrad"]
RepairStart = Literal["search", "bytes", "trial"]


@dataclass(frozen=True, kw_only=True, slots=True)
class EmbeddingTable:
    """Embedding table, or some columns of a table, with the statistics of its lookups."""

    num_embeddings: int
    dim: int
    pooling: float
    """Lookups per sample, on average."""
    reuse: tuple[float, ...]
    """Shares (sum 1) of a batch's lookups in `NUM_REUSE_BINS` bins, by the lookups of their row in the batch."""
    optimizer: Optimizer = "rowwise_adagrad"

    @property
    def state_floats(self) -> int:
        """Numbers of optimizer state per row; row-wise Adagrad has one for each part of a table."""
        return {"sgd": 0, "adagrad": self.dim, "rowwise_adagrad": 1}[self.optimizer]

    @property
    def memory_bytes(self) -> int:
        """Bytes of weights and optimizer state in fp32."""
        return self.num_embeddings * (self.dim + self.state_floats) * FLOAT_BYTES

    def with_columns(self, num_columns: int) -> "EmbeddingTable":
        """Return `dim` columns of the table as a table of their own."""
        return replace(self, dim=num_columns)


@dataclass(frozen=True, kw_only=True, slots=True)
class TablePart(EmbeddingTable):
    """Part on one device of a table that is cut by rows, or copied, as TorchRec plans it; searches here do not.

    Rows and lookups per sample are those of the part, assuming that a table's lookups are uniform over rows.
    """

    layout: Literal["rows", "host_rows", "copy"]
    """`rows` over all devices, `host_rows` over a host's devices, or `copy`: all rows, for a device's samples."""
    sample_share: float = 1.0
    """Share of the batch's samples for which the part is looked up."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """Placement task: tables to place on equal devices."""

    name: str
    tables: tuple[EmbeddingTable, ...]
    num_devices: int
    memory_bytes: int
    """Bytes of a device for weights and optimizer state."""
    batch_size: int
    """Samples of a step on all devices together."""
    kept: tuple[tuple[int, int], ...] = ()
    """Tables kept whole on a given device, as (table, device); searches place the others."""

    @property
    def digest(self) -> str:
        """SHA-256 of all but the name and `kept`, which identifies the task of a plan."""
        content = asdict(self)
        del content["name"], content["kept"]
        return sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, kw_only=True, slots=True, order=True)
class TableShard:
    """Neighbouring columns of a table, with all rows, on one device."""

    table: int
    first_column: int
    num_columns: int
    device: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Repair:
    """Repair of a plan, where the search itself found no room for a table."""

    start: RepairStart
    """Placement that was repaired: the search's own, or a new one by bytes or by trying arrangements."""
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
    """Device of every column of every table: shards in the order of tables and columns."""

    shards: tuple[TableShard, ...]
    repair: Repair | None = field(default=None, compare=False)
    """Repair that was needed after the search; None if the search itself found the plan."""
    bound_s: float | None = field(default=None, compare=False)
    """Proved lower bound, in seconds, of plans of whole tables; None if none was proved."""

    @property
    def is_cut(self) -> bool:
        """Return whether any table is in more than one shard."""
        return len({shard.table for shard in self.shards}) < len(self.shards)

    def sets(self, task: Task) -> list[list[EmbeddingTable]]:
        """Return the tables of each device; a cut table appears as a table of its columns there."""
        held: list[list[EmbeddingTable]] = [[] for _ in range(task.num_devices)]
        for shard in self.shards:
            held[shard.device].append(task.tables[shard.table].with_columns(shard.num_columns))
        return held


def place_whole(task: Task, devices: Sequence[int]) -> PlacementPlan:
    """Return the plan that has table i, uncut, on device devices[i]."""
    placed = zip(task.tables, devices, strict=True)
    return PlacementPlan(
        shards=tuple(
            TableShard(table=number, first_column=0, num_columns=table.dim, device=device)
            for number, (table, device) in enumerate(placed)
        )
    )


def list_not_kept(task: Task, plan: PlacementPlan) -> list[tuple[int, int]]:
    """Return the (table, device) pairs that the task keeps and the plan places, or cuts, elsewhere."""
    away = {shard.table for shard in plan.shards if dict(task.kept).get(shard.table, shard.device) != shard.device}
    return [(table, device) for table, device in sorted(task.kept) if table in away]


def find_fault(task: Task, plan: PlacementPlan) -> str | None:
    """Return the first fault of a plan for a task, None for a valid plan.

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
