"""Measure costs of embedding tables, to be kept in a file, and add up the costs in such a file, on the same machine
or another."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from msgspec import structs

from harness.extensions.placement.records import CostedSet, CostedTable, CostsRecord
from harness.foundation.errors import ExitCode, HarnessError
from harness.foundation.files import read_record
from harness.run_sets.environment import Environment
from harness.system.hardware import read_processors
from harness.system.resources import read_resources
from reference_models.distributed.search.costs import Seconds, Sets
from reference_models.distributed.search.known_sets import MIN_SETS, KnownSets, draw_sets, list_parts
from reference_models.distributed.search.pieces import may_be_halved
from reference_models.distributed.search.task import EmbeddingTable, Task
from reference_models.process.errors import ConfigError
from rules.records.codec import VERSION

_Key = tuple[int, int, float, str, tuple[float, ...] | None]
"""Key of a table's cost in a costs file: the table's rows, columns, lookups per sample, optimizer, and reuse (shares
of a batch's lookups by how often a row is looked up); a reuse of None matches any."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptCosts:
    """Costs of single embedding tables from a costs file, added up over the tables of a set: float64 [sets], in
    seconds."""

    path: Path
    device: str
    known: dict[_Key, CostedTable]
    record: CostsRecord = field(repr=False)

    def __call__(self, sets: Sets, /) -> Seconds:
        """Return the cost of each set of tables in seconds [sets]. Raises ConfigError if the file has no cost for a
        table."""
        return np.array([sum(self._find(table).seconds for table in tables) for tables in sets], np.float64)

    def spread_of(self, tables: Iterable[EmbeddingTable]) -> float | None:
        """Return the largest spread of the given tables. A table's spread is how far its measured rounds differ, as a
        fraction of their median. None if no spread is known."""
        found = [self._find(table).spread for table in tables]
        return max((spread for spread in found if spread is not None), default=None)

    def know_sets(self, tables: Sequence[EmbeddingTable]) -> KnownSets:
        """Return the measured sets of a costs file that are made of `tables`, or of parts that halving makes of them.
        Raises ConfigError if there are fewer than MIN_SETS, or if a table of a set lacks the times of the two halves
        of the measured rounds.

        An entry of the file without reuse (how often a batch looks up the same rows) stands for the first table with
        the entry's other properties.
        """
        by_entry: dict[_Key, EmbeddingTable] = {}
        for part in list_parts(tables):
            by_entry.setdefault(_key_of(part), part)
            by_entry.setdefault((*_key_of(part)[:-1], None), part)
        found = [by_entry.get(_key_of(entry)) for entry in self.record.tables]
        sets, seconds, places = [], [], set[int]()
        for each in self.record.sets:
            held = [table for place in each.tables if (table := found[place]) is not None]
            if len(held) == len(each.tables):
                sets.append(held)
                seconds.append(each.halves)
                places.update(each.tables)
        if len(sets) < MIN_SETS:
            raise ConfigError(
                f"--costs {self.path}: it has {len(sets)} sets of these tables, and a cost net takes {MIN_SETS}. "
                "Measure them with 'dlrmbench measure-costs --sets', or leave --cost out."
            )
        alone = {}
        for place in sorted(places):
            entry, table = self.record.tables[place], found[place]
            if entry.halves is None or table is None:
                raise ConfigError(
                    f"--costs {self.path}: tables[{place}]: it is in a set and has no halves. Add them."
                )
            alone[table] = entry.halves
        spreads = [each.spread for each in self.record.sets if each.spread is not None]
        spread = float(np.median(spreads)) if spreads else 0.0
        return KnownSets(sets=sets, seconds=np.array(seconds, np.float64), alone=alone, spread=spread)

    def _find(self, table: EmbeddingTable) -> CostedTable:
        found = self.known.get(_key_of(table)) or self.known.get((*_key_of(table)[:-1], None))
        if found is None:
            of_other = any(key[:-1] == _key_of(table)[:-1] for key in self.known)
            reuse = ", whose rows are looked up again as often" if of_other else ""
            raise ConfigError(
                f"--costs {self.path}: no cost of {table.num_embeddings} rows of {table.dim} columns, "
                f"{table.pooling:g} lookups a sample and {table.optimizer}{reuse}. Measure these tables with "
                "'dlrmbench measure-costs', or add the entry."
            )
        return found


def _key_of(table: EmbeddingTable | CostedTable) -> _Key:
    return table.num_embeddings, table.dim, table.pooling, table.optimizer, table.reuse


def read_costs(path: Path, task: Task) -> KeptCosts:
    """Read the costs of the tables of a placement task from a file. Raises HarnessError (exit 8) if the file is no
    costs file, or has two costs of one table. Raises ConfigError if the file is for another batch size, or lacks the
    cost of a table."""
    record = read_record(path, CostsRecord)
    if record.batch_size != task.batch_size:
        raise ConfigError(
            f"--costs {path}: it is of batches of {record.batch_size} samples, and the plan of {task.batch_size}. "
            "Measure costs of the same batch size."
        )
    places: dict[_Key, int] = {}
    for number, table in enumerate(record.tables):
        if (first := places.setdefault(_key_of(table), number)) != number:
            why = f"it has the table of tables[{first}], which has one cost. Leave one of them out."
            raise HarnessError(f"{path}: tables[{number}]: {why}", ExitCode.INPUT)
    for number, each in enumerate(record.sets):
        if max(each.tables) >= len(record.tables):
            why = (
                f"it has table {max(each.tables)}, and tables are 0 to {len(record.tables) - 1}. Correct its number."
            )
            raise HarnessError(f"{path}: sets[{number}]: {why}", ExitCode.INPUT)
    known = {_key_of(each): each for each in record.tables}
    costs = KeptCosts(path=path, device=record.device, known=known, record=record)
    costs([task.tables])
    return costs


def measure_costs(task: Task, environment: Environment, seed: int, num_sets: int = 0) -> CostsRecord:
    """Measure on one CPU thread the seconds per step of each table to place, and of the halves into which a plan may
    cut the table.

    Each table is measured alternately with its halves. If `num_sets` is above 0, that many sets of tables are drawn,
    and all tables, halves and sets are measured alternately. A table's cost holds for any reuse (how often a batch
    looks up the same rows), unless another table differs from it in nothing but reuse. Raises ConfigError if tables
    that are measured alternately do not fit in free memory.
    """
    from reference_models.distributed.search.measured import MeasuredCost

    lists = _list_widths(task)
    pool = [table for tables in lists for table in tables]
    drawn = draw_sets(pool, num_sets, seed)
    places = {table: place for place, table in enumerate(pool)}
    different = {table.with_columns(1) for table in task.tables}
    counts = Counter(_key_of(table)[:-1] for table in different)
    found: list[CostedTable] = []
    sets: list[CostedSet] = []
    with environment.measuring():
        for tables in [pool] if drawn else lists:
            free = read_resources().available_memory_bytes
            cost = MeasuredCost(batch_size=task.batch_size, available_bytes=free, seed=seed)
            alone = [[table] for table in tables]
            seconds = cost([*alone, *drawn])
            for table, each_s, halves in zip(tables, seconds.tolist(), cost.halves_of(alone).tolist(), strict=False):
                entry = _entry(table, each_s, halves, cost.spread_of([table]))
                is_alone = counts[_key_of(table.with_columns(1))[:-1]] == 1
                found.append(structs.replace(entry, reuse=None) if is_alone else entry)
            of_sets = zip(drawn, seconds[len(alone) :].tolist(), cost.halves_of(drawn).tolist(), strict=True)
            for each, each_s, halves in of_sets:
                held, spread = tuple(places[table] for table in each), cost.spread_of(each)
                sets.append(CostedSet(tables=held, seconds=each_s, halves=(halves[0], halves[1]), spread=spread))
    record = CostsRecord(
        schema_version=VERSION,
        device=f"one thread of {read_processors().model_name or 'a CPU'}",
        batch_size=task.batch_size,
        tables=tuple(found),
        sets=tuple(sets),
    )
    return structs.replace(record, preflight=environment.preflight, loads=tuple(environment.loads))


def _entry(table: EmbeddingTable, seconds: float, halves: Sequence[float], spread: float | None) -> CostedTable:
    return CostedTable(
        num_embeddings=table.num_embeddings,
        dim=table.dim,
        pooling=table.pooling,
        optimizer=table.optimizer,
        reuse=table.reuse,
        seconds=seconds,
        spread=spread,
        halves=(halves[0], halves[1]),
    )


def _list_widths(task: Task) -> list[Sequence[EmbeddingTable]]:
    """List each distinct embedding table to place with all parts that repeated halving makes of it, without
    repetition."""
    listed: set[EmbeddingTable] = set()
    lists: list[Sequence[EmbeddingTable]] = []
    for number, table in enumerate(task.tables):
        widths = [table.dim]
        while may_be_halved(task, (number, widths[-1])):
            widths.append(widths[-1] // 2)
        new = [part for part in map(table.with_columns, widths) if part not in listed]
        listed.update(new)
        lists += [new] if new else []
    return lists
