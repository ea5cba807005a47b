"""Optimal placement of whole embedding tables on devices, and a lower bound for the slowest device's seconds in any
such placement."""

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from reference_models.distributed.search.costs import Seconds, SetCost, add_up
from reference_models.distributed.search.descent import LEAST_GAIN
from reference_models.distributed.search.local import improve
from reference_models.distributed.search.pieces import PieceCosts, whole_tables
from reference_models.distributed.search.repair import no_plan, plan_of
from reference_models.distributed.search.task import PlacementPlan, Task, find_fault, place_whole
from reference_models.process.errors import ConfigError

MAX_ENUMERATED = 9
"""Maximum number of tables for which all partitions over devices are compared: 9 tables have 21,147 partitions
(Bell's number), made of 512 different sets whose costs are computed."""
MAX_NODES = 5_000
"""Maximum number of branch-and-bound nodes of an integer program, after which the solver stops."""
MAX_PLACES = 2_000
"""Maximum of the number of tables times the number of devices in an integer program."""
MAX_WORK = 1_000_000
"""Maximum of tables times devices times branch-and-bound nodes in an integer program, since nodes of larger programs
take longer."""
_SOLVED = 0
"""Status code of scipy's `milp`: solved."""
_STOPPED = 1
"""Status code of scipy's `milp`: stopped at a limit."""
_INFEASIBLE = 2
"""Status code of scipy's `milp`: infeasible."""


def optimal(task: Task, cost: SetCost, seed: int) -> PlacementPlan:
    """Return the placement of whole tables whose slowest device is fastest, with the proved lower bound.

    - For up to MAX_ENUMERATED tables, none of them kept on a device, all plans are compared.
    - In other tasks the cost of a set must be the sum of the tables' costs. Local search is tried first: a plan at
      the lower bound is optimal. If it finds none, an integer program is solved. If the solver stops early (MAX_NODES
      nodes, fewer for many tables), the best plan so far is returned, with a lower bound below its cost.

    Raises ConfigError if no plan fits or none was found, or if there are too many tables to compare all plans and
    their costs do not add up.
    """
    if len(task.tables) <= MAX_ENUMERATED and not task.kept:
        plan = enumerate_plans(task, cost)
        return replace(plan, bound_s=_slowest_s(task, plan, cost))
    if (parts := add_up(cost, task.tables)) is None:
        raise ConfigError(
            f"optimal compares every plan where the cost does not add up over tables, expected at most "
            f"{MAX_ENUMERATED} tables, none of them kept: {task.name} has {len(task.tables)}. Use --by local."
        )
    bound_s, fault = lower_bound(task, cost) or 0.0, None
    plans: list[PlacementPlan] = []
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


def _slowest_s(task: Task, plan: PlacementPlan, cost: SetCost) -> float:
    return float(cost(plan.sets(task)).max())


def _improve_whole(task: Task, cost: SetCost) -> PlacementPlan:
    """Return the placement of whole tables that local search finds. Raises ConfigError if it finds none."""
    costs = PieceCosts(task, cost)
    return replace(plan_of(costs, improve(costs, whole_tables(task), "optimal")[1], "optimal"), repair=None)


def enumerate_plans(task: Task, cost: SetCost) -> PlacementPlan:
    """Return the fastest of all placements of whole tables, by comparing every partition of the tables over the
    devices.

    Raises ConfigError if no placement fits the devices' memory.
    """
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
    """Return every way to divide tables among equal devices: the device of each table, int64 [partitions, tables].
    Plans that differ only by an exchange of devices count once."""
    devices = np.zeros((1, 0), dtype=np.int64)
    for _ in range(num_tables):
        num_used = devices.max(axis=1, initial=-1) + 1
        counts = np.minimum(num_used + 1, num_devices)
        rows = np.repeat(np.arange(len(devices)), counts)
        choice = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        devices = np.column_stack((devices[rows], choice))
    return devices


def solve_plan(task: Task, alone: Seconds, most_s: float = math.inf) -> tuple[PlacementPlan | None, float]:
    """Find the fastest placement of whole tables by an integer program. It minimises z, the seconds of the slowest
    device, such that each table has a device and no device exceeds its memory. Returns the best plan found, or None,
    and a lower bound of z.

    `alone` are the seconds that each table adds to its device. `most_s` is an upper bound of z, from a known plan; by
    default it is infinite. A device's fixed time is in neither. If no plan is faster than `most_s`, the result is no
    plan and the bound `most_s`. If tables times devices exceed MAX_PLACES, the program is not solved: no plan, and
    bound 0.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp  # imported here, since it takes long
    from scipy.sparse import csr_array, eye_array, hstack, kron

    num_tables = len(task.tables)
    num_devices = task.num_devices if task.kept else min(task.num_devices, num_tables)  # all other devices stay empty
    if num_tables * num_devices > MAX_PLACES:
        return None, 0.0
    order, scale = np.argsort(-alone), float(alone.max())
    sizes = np.array([float(task.tables[number].memory_bytes) for number in order])  # not scaled: exact to a byte
    may_be_on = np.arange(num_devices) <= np.arange(num_tables)[:, None]  # devices are equal, as in `_partitions`
    if task.kept:
        homes = np.array([dict(task.kept).get(int(number), -1) for number in order])[:, None]
        may_be_on = (homes < 0) | (homes == np.arange(num_devices))

    def rows(values: NDArray[np.float64], of_z: float) -> csr_array:
        """Return rows of the integer program's constraints, one per device: the sum of `values` over the device's
        tables, plus `of_z` times the variable z, the seconds of the slowest device."""
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
    """Return a lower bound for the slowest device's seconds in plans of whole tables; None if costs do not add up
    over tables.

    The bound is the larger of two numbers: the seconds of all tables, divided equally among the devices, and the
    seconds of the costliest table. A device's fixed time is added to it.
    """
    if (parts := add_up(cost, task.tables)) is None:
        return None
    alone, of_device = parts
    return float(max(alone.sum() / task.num_devices, alone.max()) + of_device)
