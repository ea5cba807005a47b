"""The best plan of whole tables, and what no such plan can be below."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from reference_models.distributed.search.costs import Additive, Bandwidth, Exchange, Seconds, SetCost, Sum
from reference_models.distributed.search.heuristics import no_plan
from reference_models.distributed.search.task import Plan, Table, Task, find_fault, place_whole
from reference_models.process.errors import ConfigError

MAX_ENUMERATED = 9
"""Tables whose partitions are all looked at: 21,147 of 9 (Bell's number), and 512 sets to cost."""
MAX_NODES = 5_000
"""Nodes of the branch and bound of an integer program, after which it is given up."""
_SOLVED, _INFEASIBLE = 0, 2
"""Statuses of scipy's `milp`."""


def optimal(task: Task, cost: SetCost, seed: int) -> Plan:
    """Return a plan with the cheapest slowest device, of those that cut no table.

    Of up to MAX_ENUMERATED tables all plans are looked at; of more, where the cost adds up over tables, an integer
    program is solved. Raises ConfigError where no plan fits, where it does not add up, and after MAX_NODES.
    """
    if len(task.tables) <= MAX_ENUMERATED:
        return enumerate_plans(task, cost)
    if (parts := add_up(cost, task.tables)) is None:
        raise ConfigError(
            f"optimal looks at every plan, and {task.name} has {len(task.tables)} tables, whose cost does not add up "
            f"over tables: it can for {MAX_ENUMERATED}. Use --by neuroshard."
        )
    return solve_plan(task, parts[0])


def add_up(cost: SetCost, tables: Sequence[Table]) -> tuple[Seconds, float] | None:
    """Return seconds of each table and of a device with any, if a set costs their sum; else None."""
    if isinstance(cost, Sum):
        found = [add_up(part, tables) for part in cost.parts]
        parts = [part for part in found if part is not None]
        alone, of_device = np.sum([part[0] for part in parts], axis=0), sum(part[1] for part in parts)
        return (np.asarray(alone), of_device) if len(parts) == len(found) else None
    if not isinstance(cost, Additive | Exchange | Bandwidth):
        return None
    of_device = cost.device_s if isinstance(cost, Bandwidth) else 0.0
    return cost([[table] for table in tables]) - of_device, of_device


def enumerate_plans(task: Task, cost: SetCost) -> Plan:
    """Look at every partition of the tables over the devices. Raises ConfigError where none fits."""
    num_tables = len(task.tables)
    is_in = (np.arange(2**num_tables)[:, None] >> np.arange(num_tables)) & 1
    sets = [[table for table, chosen in zip(task.tables, row, strict=True) if chosen] for row in is_in]
    set_s = np.concatenate(([0.0], cost(sets[1:])))
    set_s[[sum(table.memory_bytes for table in tables) > task.memory_bytes for tables in sets]] = math.inf
    devices = _partitions(num_tables, task.num_devices)
    members = [(devices == device) @ (1 << np.arange(num_tables)) for device in range(devices.max() + 1)]
    slowest = set_s[np.array(members)].max(axis=0)
    if math.isinf(slowest.min()):
        raise no_plan(task, "optimal")
    return place_whole(task, devices[slowest.argmin()].tolist())


def _partitions(num_tables: int, num_devices: int) -> NDArray[np.int64]:
    """Return the device of each table in each partition, shape (partitions, tables).

    Devices are equal: a table is with one before it, or on the first device that is empty still.
    """
    devices = np.zeros((1, 0), dtype=np.int64)
    for _ in range(num_tables):
        num_used = devices.max(axis=1, initial=-1) + 1
        counts = np.minimum(num_used + 1, num_devices)
        rows = np.repeat(np.arange(len(devices)), counts)
        choice = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        devices = np.column_stack((devices[rows], choice))
    return devices


def solve_plan(task: Task, alone: Seconds) -> Plan:
    """Minimise z: each table is on one device; those of no device cost more than z or need more than its memory.

    `alone` is what each table adds to its device, in seconds. Raises ConfigError where no plan fits, and where none
    is proved best.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp  # which takes long to import

    num_tables = len(task.tables)
    num_devices = min(task.num_devices, num_tables)  # the others stay empty
    order, each_device, none = np.argsort(-alone), np.eye(num_devices), np.zeros(num_devices)
    sizes = [float(task.tables[number].memory_bytes) for number in order]  # bytes: a limit in them is kept to one
    may_be_on = np.arange(num_devices) <= np.arange(num_tables)[:, None]  # devices are equal, as in `_partitions`
    of_tables = np.kron(np.eye(num_tables), np.ones(num_devices))
    of_devices = [np.kron(values, each_device) for values in (alone[order] / alone.max(), sizes)]
    solution = milp(
        c=np.append(np.zeros(may_be_on.size), 1.0),
        integrality=np.append(np.ones(may_be_on.size), 0),
        bounds=Bounds(0.0, np.append(may_be_on.ravel(), np.inf)),
        constraints=[
            LinearConstraint(np.column_stack((of_tables, np.zeros(num_tables))), 1.0, 1.0),
            LinearConstraint(np.column_stack((of_devices[0], none - 1.0)), -np.inf, 0.0),
            LinearConstraint(np.column_stack((of_devices[1], none)), -np.inf, task.memory_bytes),
        ],
        options={"mip_rel_gap": 0.0, "node_limit": MAX_NODES},
    )
    if solution.status == _INFEASIBLE:
        raise no_plan(task, "optimal")
    if solution.status == _SOLVED and solution.x is not None:
        devices = solution.x[:-1].reshape(may_be_on.shape).argmax(axis=1)
        plan = place_whole(task, devices[np.argsort(order)].tolist())
        if find_fault(task, plan) is None:
            return plan
    raise ConfigError(
        f"optimal gave up on {task.name} after {MAX_NODES} nodes: {num_tables} tables on {num_devices} devices. "
        "Use --by neuroshard, and compare it with the lower bound."
    )


def lower_bound(task: Task, cost: SetCost) -> float | None:
    """Return seconds that no plan of whole tables is below; None where the cost does not add up over tables.

    It is the larger of an equal share of all tables and the costliest table.
    """
    if (parts := add_up(cost, task.tables)) is None:
        return None
    alone, of_device = parts
    return float(max(alone.sum() / task.num_devices, alone.max()) + of_device)
