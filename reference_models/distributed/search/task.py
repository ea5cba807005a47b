"""A placement task, its tables and devices, and a plan of which columns of which table are where. Torch-free."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from typing import Literal

NUM_REUSE_BINS = 17
"""Bin 0 counts lookups of rows that are looked up once in a batch, bin k rows of 2^(k-1) < lookups <= 2^k: the
bins of NeuroShard's tables, which count rows in them."""
FLOAT_BYTES = 4

Optimizer = Literal["sgd", "adagrad", "rowwise_adagrad"]
RepairStart = Literal["search", "bytes", "trial"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """One embedding table, or some columns of one, and how it is looked up."""

    num_embeddings: int
    dim: int
    pooling: float
    """Lookups per sample, on average."""
    reuse: tuple[float, ...]
    """Shares of a batch's lookups in `NUM_REUSE_BINS` bins by how often their row is looked up in it; sum 1."""
    optimizer: Optimizer = "rowwise_adagrad"

    @property
    def state_floats(self) -> int:
        """Numbers per row that the optimizer keeps; row-wise Adagrad keeps one for each part of a table."""
        return {"sgd": 0, "adagrad": self.dim, "rowwise_adagrad": 1}[self.optimizer]

    @property
    def memory_bytes(self) -> int:
        """Weights and optimizer state in fp32."""
        return self.num_embeddings * (self.dim + self.state_floats) * FLOAT_BYTES

    def with_columns(self, num_columns: int) -> "Table":
        """Return so many columns of the table as a table of their own."""
        return replace(self, dim=num_columns)


@dataclass(frozen=True, kw_only=True, slots=True)
class TablePart(Table):
    """What one device has of a table that is cut by rows, or copied: in plans of TorchRec, of no search here.

    Rows and lookups per sample are those of the part, for which the lookups of a table are taken as even over rows.
    """

    layout: Literal["rows", "host_rows", "copy"]
    """Rows over all devices, over those of one host, or all rows on each device, for its own samples."""
    sample_share: float = 1.0
    """Share of the batch's samples that it is looked up for."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """Tables to place on equal devices."""

    name: str
    tables: tuple[Table, ...]
    num_devices: int
    memory_bytes: int
    """What one device has, for weights and optimizer state."""
    batch_size: int
    """Samples of all devices together, per step."""
    kept: tuple[tuple[int, int], ...] = ()
    """Tables that stay whole where they are, each with its device; searches place the others."""

    @property
    def digest(self) -> str:
        """SHA-256 of everything but the name and what is kept: what a plan is a plan of."""
        content = asdict(self)
        del content["name"], content["kept"]
        return sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, kw_only=True, slots=True, order=True)
class Shard:
    """Neighbouring columns of one table, on one device, with all rows."""

    table: int
    first_column: int
    num_columns: int
    device: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Repair:
    """How a plan was found where the search itself found no room for a table."""

    start: RepairStart
    """What was repaired: what the search had placed, or a new start by bytes or by trying arrangements."""
    num_moves: int
    num_swaps: int

    def __str__(self) -> str:
        counts = [(self.num_moves, "move"), (self.num_swaps, "swap")]
        steps = " and ".join(f"{count} {word}{'s' * (count > 1)}" for count, word in counts if count)
        if self.start == "search":
            return f"repaired by {steps}"
        return f"placed anew by {self.start}" + (f", then {steps}" if steps else "")


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """Where every column of every table is: shards in the order of tables and columns."""

    shards: tuple[Shard, ...]
    repair: Repair | None = field(default=None, compare=False)
    """What was needed beyond the search itself; None where it found the plan."""
    bound_s: float | None = field(default=None, compare=False)
    """Seconds that the search proved no plan of whole tables to be below; None where it proved nothing."""

    @property
    def is_cut(self) -> bool:
        """Return whether any table is in more than one shard."""
        return len({shard.table for shard in self.shards}) < len(self.shards)

    def sets(self, task: Task) -> list[list[Table]]:
        """Return the tables that each device holds, those that are cut as tables of their columns there."""
        held: list[list[Table]] = [[] for _ in range(task.num_devices)]
        for shard in self.shards:
            held[shard.device].append(task.tables[shard.table].with_columns(shard.num_columns))
        return held


def place_whole(task: Task, devices: Sequence[int]) -> Plan:
    """Return the plan that has table i, uncut, on device devices[i]."""
    placed = zip(task.tables, devices, strict=True)
    return Plan(
        shards=tuple(
            Shard(table=number, first_column=0, num_columns=table.dim, device=device)
            for number, (table, device) in enumerate(placed)
        )
    )


def list_not_kept(task: Task, plan: Plan) -> list[tuple[int, int]]:
    """List the tables, each with its device, that the task keeps and the plan has columns of elsewhere."""
    away = {shard.table for shard in plan.shards if dict(task.kept).get(shard.table, shard.device) != shard.device}
    return [(table, device) for table, device in sorted(task.kept) if table in away]


def find_fault(task: Task, plan: Plan) -> str | None:
    """Return the first way in which a plan is none of the task: columns left out, placed twice or outside of their
    table, a device that is not there, or more than its memory; None for a plan that may be used."""
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
