"""Read the placement plan that is in use today, improve it by moves of tables, and count the tables that other plans
would move."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.optimize import linear_sum_assignment

from harness.config.sharding_plan import read_plan
from harness.extensions.placement.records import CostsRecord
from harness.foundation.errors import HarnessError
from reference_models.distributed.search.costs import SetCost
from reference_models.distributed.search.descent import PieceLayout, descend
from reference_models.distributed.search.pieces import PieceCosts
from reference_models.distributed.search.repair import find_room, plan_of
from reference_models.distributed.search.task import PlacementPlan, TableShard, Task
from reference_models.process.errors import ConfigError
from rules.records.codec import Damage, decode

IMPROVED = "today's, moved"
"""Name of the study's table row for a plan made from the plan in use today by moving and swapping tables."""
_MAX_RENAMED = 512
"""Maximum number of devices for which the devices of a new plan are exchanged so that few bytes move: the time grows
with the cube of the number."""


def read_today(path: Path, task: Task) -> PlacementPlan:
    """Read the placement plan that is in use today. Raises HarnessError (exit 8) if the file is no plan, ConfigError
    if the plan has other tables or another number of devices than the task."""
    try:
        of, plan = read_plan(path)
    except HarnessError as error:
        if isinstance(decode(path, CostsRecord), Damage):
            raise
        why = "it is no plan but costs of tables, which --costs takes. Name a file that 'place -o' made."
        raise HarnessError(f"--from {path}: {why}", error.exit_code) from None
    tables = [[(table.num_embeddings, table.dim) for table in each.tables] for each in (of, task)]
    if tables[0] != tables[1]:
        counts = f"its {len(of.tables)} tables are not the {len(task.tables)}"
        raise ConfigError(f"--from {path}: {counts} of {task.name}. Make the plan of these with -o.")
    if of.num_devices != task.num_devices:
        raise ConfigError(f"--from {path}: it is of {of.num_devices} devices. Give --devices {of.num_devices}.")
    return plan


def improve_today(task: Task, cost: SetCost, today: PlacementPlan) -> PlacementPlan:
    """Return the placement plan in use today, improved by moving and swapping its tables and parts of tables. No part
    of a table is cut further. Parts of a table are joined only if the task requires the whole table to be on one
    device. Raises ConfigError if the devices' memory does not hold the tables."""
    costs = PieceCosts(task, cost)
    held: list[list[tuple[int, int]]] = [[] for _ in range(task.num_devices)]
    for table, device in task.kept:
        held[device].append((table, task.tables[table].dim))
    for shard in today.shards:
        if shard.table not in dict(task.kept):
            held[shard.device].append((shard.table, shard.num_columns))
    roomy, _ = find_room(costs, tuple(map(tuple, held)), IMPROVED)
    return plan_of(costs, descend(PieceLayout(costs, roomy))[1], IMPROVED)


def name_devices_as_today(task: Task, plan: PlacementPlan, today: PlacementPlan) -> PlacementPlan:
    """Return a placement plan changed so that most bytes stay where the plan in use today has them. All devices are
    alike, so devices are exchanged with each other. Each part of a cut table is given those columns that its device
    holds today, as far as possible.

    Devices are not exchanged if the task ties tables to devices, or if there are more than _MAX_RENAMED devices.
    """
    if task.kept or task.num_devices > _MAX_RENAMED:
        return _take_columns(plan, today)
    stays = np.zeros((task.num_devices, task.num_devices))
    before = _widths(today)
    for table, of_devices in _widths(plan).items():
        column_bytes = task.tables[table].memory_bytes / task.tables[table].dim
        for new, width in of_devices.items():
            for old, width_today in before[table].items():
                stays[new, old] += column_bytes * min(width, width_today)  # any columns of that width cost the same
    names = linear_sum_assignment(stays, maximize=True)[1].tolist()
    shards = tuple(replace(shard, device=names[shard.device]) for shard in plan.shards)
    return _take_columns(replace(plan, shards=shards), today)


def _widths(plan: PlacementPlan) -> dict[int, Counter[int]]:
    """Return a dict from table to a dict from device to the number of the table's columns on that device."""
    widths: dict[int, Counter[int]] = {}
    for shard in plan.shards:
        widths.setdefault(shard.table, Counter())[shard.device] += shard.num_columns
    return widths


def _take_columns(plan: PlacementPlan, today: PlacementPlan) -> PlacementPlan:
    """Return a placement plan in which each part of a cut table is given columns such that most columns stay where
    the plan in use today has them. The plan's cost does not change, since it depends only on the number of columns of
    a part.

    A table that is cut into parts of the same widths as today is cut at the same columns as today.
    """
    before, after = _shards_of_tables(today), _shards_of_tables(plan)
    shards: list[TableShard] = []
    for table, of in after.items():
        is_same = Counter(each.num_columns for each in of) == Counter(each.num_columns for each in before[table])
        places = before[table] if is_same else of
        for width in sorted({each.num_columns for each in of}):
            parts, spots = ([each for each in some if each.num_columns == width] for some in (of, places))
            stay = [[_count_columns(before[table], spot, part.device) for spot in spots] for part in parts]
            taken = linear_sum_assignment(np.array(stay), maximize=True)[1].tolist() if len(parts) > 1 else [0]
            shards += [
                replace(part, first_column=spots[at].first_column) for part, at in zip(parts, taken, strict=True)
            ]
    return replace(plan, shards=tuple(sorted(shards)))


def _shards_of_tables(plan: PlacementPlan) -> dict[int, list[TableShard]]:
    shards: dict[int, list[TableShard]] = {}
    for shard in plan.shards:
        shards.setdefault(shard.table, []).append(shard)
    return shards


def _count_columns(before: Iterable[TableShard], spot: TableShard, device: int) -> int:
    """Return how many columns of the shard `spot` were on `device` before, when its table was cut into the shards
    `before`."""
    return sum(_count_common(spot, old) for old in before if old.device == device)


def _count_common(one: TableShard, other: TableShard) -> int:
    """Return the number of columns that two shards of one table have in common."""
    last = min(one.first_column + one.num_columns, other.first_column + other.num_columns)
    return max(last - max(one.first_column, other.first_column), 0)


def count_moved(task: Task, plan: PlacementPlan, today: PlacementPlan) -> tuple[int, int]:
    """Return the number of tables with columns on another device than in the placement plan in use today, and the
    bytes of those columns with their optimizer state."""
    moved = [(table, num_bytes) for table, num_bytes, new, old in _columns(task, plan, today) if new != old]
    return len({table for table, _ in moved}), round(sum(num_bytes for _, num_bytes in moved))


def _columns(task: Task, plan: PlacementPlan, today: PlacementPlan) -> Iterator[tuple[int, float, int, int]]:
    """Yield the neighbouring columns of a table that `plan` and `today` each have on one device, as a tuple: table,
    bytes, device in `plan`, device in `today`."""
    before = _shards_of_tables(today)
    for new in plan.shards:
        table = task.tables[new.table]
        for old in before[new.table]:
            if num_columns := _count_common(new, old):
                yield new.table, table.memory_bytes * num_columns / table.dim, new.device, old.device
