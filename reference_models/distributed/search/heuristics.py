"""Placement of embedding tables one after another: by published heuristics, or greedily by predicted cost."""

import math
from collections.abc import Callable

import numpy as np

from reference_models.distributed.search.costs import SetCost
from reference_models.distributed.search.pieces import PieceCosts, fill_devices, whole_tables
from reference_models.distributed.search.repair import no_plan, plan_of
from reference_models.distributed.search.task import EmbeddingTable, PlacementPlan, Task, place_whole


def place_in_order(task: Task, cost: SetCost, search: str) -> PlacementPlan:
    """Place tables in falling order of cost, each on the device whose cost is least so far, as AutoShard's released
    code does.

    Raises ConfigError if no plan fits the devices' memory, even after repair (`search.repair`).
    """
    costs = PieceCosts(task, cost)
    ordered = costs.ordered(whole_tables(task))
    return plan_of(costs, fill_devices(costs, [ordered], [math.inf], overflows=True)[0][1], search)


def _sum_of(weight: Callable[[EmbeddingTable], float]) -> SetCost:
    return lambda sets: np.array([sum(map(weight, tables)) for tables in sets])


def random(task: Task, cost: SetCost, seed: int) -> PlacementPlan:
    """Place tables in falling order of size, each on a random device with free memory for it.

    Raises ConfigError if no device has room for a table.
    """
    generator, devices = np.random.default_rng(seed), np.zeros(len(task.tables), dtype=np.int64)
    free = np.full(task.num_devices, task.memory_bytes)
    sizes = [table.memory_bytes for table in task.tables]
    for number, device in task.kept:
        devices[number] = device
        free[device] -= sizes[number]
    for number in np.argsort(sizes)[::-1]:
        if number in dict(task.kept):
            continue
        roomy = np.flatnonzero(free >= sizes[number])
        if not roomy.size:
            raise no_plan(task, "random")
        devices[number] = generator.choice(roomy)
        free[devices[number]] -= sizes[number]
    return place_whole(task, devices.tolist())


def dim(task: Task, cost: SetCost, seed: int) -> PlacementPlan:
    """Place tables so that devices hold about equally many columns. Raises ConfigError if no plan fits the devices'
    memory."""
    return place_in_order(task, _sum_of(lambda table: table.dim), "dim")


def lookup(task: Task, cost: SetCost, seed: int) -> PlacementPlan:
    """Place tables so that devices' sums of columns times lookups per sample are about equal.

    Raises ConfigError if no plan fits the devices' memory.
    """
    return place_in_order(task, _sum_of(lambda table: table.dim * table.pooling), "lookup")


def size_lookup(task: Task, cost: SetCost, seed: int) -> PlacementPlan:
    """Place tables so that a weight is about equal on all devices: columns times lookups per sample times log10 of
    rows, added up over a device's tables.

    Raises ConfigError if no plan fits the devices' memory.
    """
    weight = _sum_of(lambda table: table.dim * table.pooling * math.log10(table.num_embeddings))
    return place_in_order(task, weight, "size_lookup")


def greedy(task: Task, cost: SetCost, seed: int) -> PlacementPlan:
    """Place tables greedily by `cost`, so that devices cost about equally many seconds per step.

    Raises ConfigError if no plan fits the devices' memory.
    """
    return place_in_order(task, cost, "greedy")
