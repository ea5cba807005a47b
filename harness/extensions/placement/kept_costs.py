"""Costs of tables in a file: measured on one machine, added up on another."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from msgspec import structs

from harness.extensions.placement.records import CostedTable, CostsRecord
from harness.foundation.files import read_record
from harness.run_sets.environment import Environment
from harness.system.hardware import read_processors
from harness.system.resources import read_resources
from reference_models.distributed.search.costs import Seconds, Sets
from reference_models.distributed.search.pieces import may_be_halved
from reference_models.distributed.search.task import Table, Task
from reference_models.process.errors import ConfigError
from rules.records.codec import VERSION

_Key = tuple[int, int, float, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptCosts:
    """Costs of single tables that a file has, added up over sets: float64 [sets], in seconds."""

    path: Path
    device: str
    known: dict[_Key, CostedTable]

    def __call__(self, sets: Sets, /) -> Seconds:
        """Raises ConfigError for a table that the file has no cost of."""
        return np.array([sum(self._find(table).seconds for table in tables) for tables in sets], np.float64)

    def spread_of(self, tables: Iterable[Table]) -> float | None:
        """Return the widest spread of the tables that a device holds; None where none is known."""
        found = [self._find(table).spread for table in tables]
        return max((spread for spread in found if spread is not None), default=None)

    def _find(self, table: Table) -> CostedTable:
        found = self.known.get(_key_of(table))
        if found is None:
            raise ConfigError(
                f"--costs {self.path}: no cost of {table.num_embeddings} rows of {table.dim} columns, "
                f"{table.pooling:g} lookups a sample and {table.optimizer}. Measure these tables with "
                "'dlrmbench measure-costs', or add the entry."
            )
        return found


def _key_of(table: Table | CostedTable) -> _Key:
    return table.num_embeddings, table.dim, table.pooling, table.optimizer


def read_costs(path: Path, task: Task) -> KeptCosts:
    """Read costs of the task's tables. Raises HarnessError (exit 8) where the file is none, ConfigError where it is
    of another batch size, or has no cost of a table."""
    record = read_record(path, CostsRecord)
    if record.batch_size != task.batch_size:
        raise ConfigError(
            f"--costs {path}: it is of batches of {record.batch_size} samples, and the plan of {task.batch_size}. "
            "Measure costs of the same batch size."
        )
    costs = KeptCosts(path=path, device=record.device, known={_key_of(each): each for each in record.tables})
    costs([task.tables])
    return costs


def measure_costs(task: Task, environment: Environment, seed: int) -> CostsRecord:
    """Measure each table of a task, and the halves that a plan may cut it into, with one thread of this CPU.

    A table and its halves take turns. Raises ConfigError where one does not fit in free memory.
    """
    from reference_models.distributed.search.measured import MeasuredCost

    found = []
    with environment.measuring():
        for tables in _list_widths(task):
            free = read_resources().available_memory_bytes
            cost = MeasuredCost(batch_size=task.batch_size, available_bytes=free, seed=seed)
            for table, seconds in zip(tables, cost([[table] for table in tables]).tolist(), strict=True):
                found.append(_entry(table, seconds, cost.spread_of([table])))
    record = CostsRecord(
        schema_version=VERSION,
        device=f"one thread of {read_processors().model_name or 'a CPU'}",
        batch_size=task.batch_size,
        tables=tuple(found),
    )
    return structs.replace(record, preflight=environment.preflight, loads=tuple(environment.loads))


def _entry(table: Table, seconds: float, spread: float | None) -> CostedTable:
    return CostedTable(
        num_embeddings=table.num_embeddings,
        dim=table.dim,
        pooling=table.pooling,
        optimizer=table.optimizer,
        seconds=seconds,
        spread=spread,
    )


def _list_widths(task: Task) -> list[Sequence[Table]]:
    """List each different table with all parts that halving makes of it."""
    lists: dict[_Key, list[Table]] = {}
    for number, table in enumerate(task.tables):
        widths = [table.dim]
        while may_be_halved(task, (number, widths[-1])):
            widths.append(widths[-1] // 2)
        lists.setdefault(_key_of(table), [table.with_columns(width) for width in widths])
    return [*lists.values()]
