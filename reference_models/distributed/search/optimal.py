"""The best plan of whole tables, and what no such plan can be below."""

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from reference_models.distributed.search.costs import Seconds, SetCost, add_up
from reference_models.distributed.search.descent import LEAST_GAIN
from reference_models.distributed.search.local import improve
from reference_models.distributed.search.pieces import PieceCosts, whole_tables
from reference_models.distributed.search.repair import no_plan, plan_of
from reference_models.distributed.search.task import Plan, Task, find_fault, place_whole
from reference_models.process.errors import ConfigError

MAX_ENUMERATED = 9
"""Tables whose partitions are all looked at: 21,147 of 9 (Bell's number), and 512 sets to cost."""
MAX_NODES = 5_000
"""Nodes of the branch and bound of an integer program, after which it is given up."""
MAX_PLACES, MAX_WORK = 2_000, 1_000_000
"""Tables times devices of the largest integer program that is begun, and those times nodes: of larger ones a node
takes longer."""
_SOLVED, _STOPPED, _INFEASIBLE = 0, 1, 2
"""Statuses of scipy's `milp`."""


def optimal(task: Task, cost: SetCost, seed: int) -> Plan:
    """Return a plan with the cheapest slowest device, of those that cut no table, and the bound that it proved.

    Of up to MAX_ENUMERATED tables all plans are looked at; of more, where the cost adds up over tables, an integer
    program is solved, unless local search has a plan that costs the lower bound. After MAX_NODES, or fewer of many
    tables, the best plan so far is returned, whose bound is below its cost. Raises ConfigError where no plan fits or
    was found, and where the cost does not add up.
    """
    if len(task.tables) <= MAX_ENUMERATED and not task.kept:
        plan = enumerate_plans(task, cost)
        return replace(plan, bound_s=_slowest_s(task, plan, cost))
    if (parts := add_up(cost, task.tables)) is None:
        raise ConfigError(
            f"optimal looks at every plan, and {task.name} has {len(task.tables)} tables, whose cost does not add up "
            f"over tables: it can for {MAX_ENUMERATED} of which none is kept. Use --by local."
        )
    bound_s, fault = lower_bound(task, cost) or 0.0, None
    plans: list[Plan] = []
    try:
        plans.append(_improve_whole(task, cost))
    except ConfigError as error:
        fault = error
    if fault is not None or _slowest_s(task, plans[0], cost) > bound_s * (1 + LEAST_GAIN):
        most_s = _slowest_s(task, plans[0], cost) - parts[1] if plans else math.inf
        solved, proved_s = solve_plan(task, parts[0], most_s)
        plans += [] if solved is None else [solved]
        bound_s = max(bound_s, proved_s + parts[1])
    if not plans:
        assert fault is not None
        raise no_plan(task, "optimal", is_proved=True) if math.isinf(bound_s) else fault
    best = min(plans, key=lambda plan: _slowest_s(task, plan, cost))
    return replace(best, bound_s=min(bound_s, _slowest_s(task, best, cost)))


def _slowest_s(task: Task, plan: Plan, cost: SetCost) -> float:
    return float(cost(plan.sets(task)).max())


def _improve_whole(task: Task, cost: SetCost) -> Plan:
    """Return what local search finds of whole tables. Raises ConfigError where that is nothing."""
    costs = PieceCosts(task, cost)
    return replace(plan_of(costs, improve(costs, whole_tables(task), "optimal")[1], "optimal"), repair=None)


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
        raise no_plan(task, "optimal", is_proved=True)
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


def solve_plan(task: Task, alone: Seconds, most_s: float = math.inf) -> tuple[Plan | None, float]:
    """Minimise z: each table is on one device; those of no device cost more than z or need more than its memory.

    `alone` is what each table adds to its device, `most_s` what a plan that is known costs without a device's own
    time, in seconds. Returns the best plan so far, None where there is none, and what none is below: infinite where
    no plan fits, 0 where the program has more than MAX_PLACES and is not solved.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp  # which takes long to import
    from scipy.sparse import csr_array, eye_array, hstack, kron

    num_tables = len(task.tables)
    num_devices = task.num_devices if task.kept else min(task.num_devices, num_tables)  # the others stay empty
    if num_tables * num_devices > MAX_PLACES:
        return None, 0.0
    order, scale = np.argsort(-alone), float(alone.max())
    sizes = np.array([float(task.tables[number].memory_bytes) for number in order])  # a limit in bytes is kept to one
    may_be_on = np.arange(num_devices) <= np.arange(num_tables)[:, None]  # devices are equal, as in `_partitions`
    if task.kept:
        homes = np.array([dict(task.kept).get(int(number), -1) for number in order])[:, None]
        may_be_on = (homes < 0) | (homes == np.arange(num_devices))

    def rows(values: NDArray[np.float64], of_z: float) -> csr_array:
        """A row per device: the sum of what its tables have, and z times a factor."""
        return csr_array(
            hstack((kron(values[None], eye_array(num_devices)), csr_array(np.full((num_devices, 1), of_z))))
        )

    of_tables = hstack((kron(eye_array(num_tables), np.ones((1, num_devices))), csr_array((num_tables, 1))))
    solution = milp(
        c=np.append(np.zeros(may_be_on.size), 1.0),
        integrality=np.append(np.ones(may_be_on.size), 0),
        bounds=Bounds(0.0, np.append(may_be_on.ravel(), most_s / scale * (1 + LEAST_GAIN))),
        constraints=[
            LinearConstraint(csr_array(of_tables), 1.0, 1.0),
            LinearConstraint(rows(alone[order] / scale, -1.0), -np.inf, 0.0),
            LinearConstraint(rows(sizes, 0.0), -np.inf, task.memory_bytes),
        ],
        options={"mip_rel_gap": 0.0, "node_limit": min(MAX_NODES, MAX_WORK // may_be_on.size)},
    )
    if solution.status == _INFEASIBLE:
        return None, math.inf if math.isinf(most_s) else most_s
    bound_s = scale * float(solution.mip_dual_bound or 0.0) if solution.status in (_SOLVED, _STOPPED) else 0.0
    if solution.x is None:
        return None, bound_s
    devices = solution.x[:-1].reshape(may_be_on.shape).argmax(axis=1)
    plan = place_whole(task, devices[np.argsort(order)].tolist())
    return (plan if find_fault(task, plan) is None else None), bound_s


def lower_bound(task: Task, cost: SetCost) -> float | None:
    """Return seconds that no plan of whole tables is below; None where the cost does not add up over tables.

    It is the larger of an equal share of all tables and the costliest table.
    """
    if (parts := add_up(cost, task.tables)) is None:
        return None
    alone, of_device = parts
    return float(max(alone.sum() / task.num_devices, alone.max()) + of_device)
