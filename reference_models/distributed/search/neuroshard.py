"""NeuroShard's search (Zha et al., MLSys 2023): a beam over cuts of columns, around a grid of greedy placements."""

import math
from collections.abc import Sequence
from operator import itemgetter

import numpy as np

from reference_models.distributed.search.costs import SetCost
from reference_models.distributed.search.heuristics import (
    Filling,
    PieceCosts,
    Pieces,
    fill_devices,
    plan_of,
    whole_tables,
)
from reference_models.distributed.search.task import Plan, Task

BEAM_WIDTH, NUM_CANDIDATES, NUM_CUTS = 3, 10, 10
"""k, n and L of the paper: lists of pieces that are kept, pieces that are cut of each, cuts one after another."""
CAPS = (*np.linspace(1.0, 1.5, 11).tolist(), math.inf)
"""Columns of a device over their mean. The last is ours: without it, few tables have no plan within any cap."""
_COLUMN_STEP = 4
"""A piece has a multiple of so many columns, which is what FBGEMM's kernels load at once."""


def neuroshard(task: Task, cost: SetCost, seed: int) -> Plan:
    """Search plans that cut tables into halves, by columns. Nothing is random.

    Raises ConfigError where no list of pieces finds room.
    """
    costs = PieceCosts(task, cost)
    beam = [whole_tables(task)]
    best = _place_in_grid(costs, beam)[0]
    for _ in range(NUM_CUTS):
        lists = sorted({cut for pieces in beam for cut in _cut_each(costs, pieces)})
        if not lists:
            break
        placed = sorted(zip(_place_in_grid(costs, lists), lists, strict=True))
        beam = [pieces for _, pieces in placed[:BEAM_WIDTH]]
        best = min(best, placed[0][0], key=itemgetter(0))
    return plan_of(task, best, "neuroshard")


def _cut_each(costs: PieceCosts, pieces: Pieces) -> list[Pieces]:
    """Return the lists in which one of the costliest, or one of the largest, pieces is two halves."""
    weights = (costs.alone(pieces), costs.sizes(pieces))
    chosen = {int(place) for each in weights for place in np.argsort(each)[-NUM_CANDIDATES:]}
    return [
        tuple(sorted((*pieces[:place], *pieces[place + 1 :], *[(pieces[place][0], pieces[place][1] // 2)] * 2)))
        for place in chosen
        if pieces[place][1] % (2 * _COLUMN_STEP) == 0
    ]


def _place_in_grid(costs: PieceCosts, lists: Sequence[Pieces]) -> list[Filling]:
    """Return the best of all caps for each list; the caps of all lists are filled together."""
    mean = sum(table.dim for table in costs.task.tables) / costs.task.num_devices
    ordered = [costs.ordered(pieces) for pieces in lists for _ in CAPS]
    filled = fill_devices(costs, ordered, [cap * mean for _ in lists for cap in CAPS])
    starts = range(0, len(filled), len(CAPS))
    return [min(filled[start : start + len(CAPS)]) for start in starts]
