"""NeuroShard's search (the paper Zha et al., MLSys 2023): a beam search of cuts by columns, and for each list of
tables and parts a grid search of greedy placements.

The search differs from the paper in two points: a cut halves all parts of a table, and tables of row-wise Adagrad are
not cut. Both restrictions are those of training runs, which accept no other cuts.
"""

import math
from collections.abc import Sequence
from operator import itemgetter

import numpy as np

from reference_models.distributed.search.costs import SetCost
from reference_models.distributed.search.pieces import (
    Filling,
    PieceCosts,
    Pieces,
    fill_devices,
    halve,
    may_be_halved,
    whole_tables,
)
from reference_models.distributed.search.repair import plan_of
from reference_models.distributed.search.task import PlacementPlan, Task
from reference_models.process.errors import ConfigError

BEAM_WIDTH = 3
"""Width k of the beam (number of lists of tables and parts), as in the paper NeuroShard."""
NUM_CANDIDATES = 10
"""Number n of pieces cut in each list of the beam, as in the paper NeuroShard."""
NUM_CUTS = 10
"""Number L of successive cuts of tables in the beam search, as in the paper NeuroShard."""
CAPS = (*np.linspace(1.0, 1.5, 11).tolist(), math.inf)
"""Upper limits of the number of columns on a device, as multiples of the devices' mean. A placement is made for each
limit, and the fastest is taken. The last value, no limit, is not in the paper NeuroShard: tasks of few tables may
need it."""


def neuroshard(task: Task, cost: SetCost, seed: int) -> PlacementPlan:
    """Return the fastest placement found by a beam search that may cut tables into halves of columns. Nothing is
    random.

    Each entry of the beam is a list of pieces (whole tables or parts) to place. If no entry fits the devices' memory,
    placements are repaired in turn until one fits, beginning with that of whole tables. Raises ConfigError if none
    can be repaired.
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
    if not math.isinf(best[0]):
        return plan_of(costs, best[1], "neuroshard")
    return _repair_first(costs, [whole_tables(task), *beam])


def _repair_first(costs: PieceCosts, lists: Sequence[Pieces]) -> PlacementPlan:
    """Try to place each list of pieces (tables or parts) in turn, moving pieces until the devices' memory suffices.
    Return the first plan that fits. Raises the first list's ConfigError if no list fits."""
    faults = []
    for pieces in lists:
        filled = fill_devices(costs, [costs.ordered(pieces)], [math.inf], overflows=True)[0]
        try:
            return plan_of(costs, filled[1], "neuroshard")
        except ConfigError as error:
            faults.append(error)
    raise faults[0]


def _cut_each(costs: PieceCosts, pieces: Pieces) -> list[Pieces]:
    """Return lists of pieces (tables or parts), each with one table cut into twice as many parts as in `pieces`.

    The tables to cut are those of the costliest and of the largest pieces.
    """
    weights = (costs.alone(pieces), costs.sizes(pieces))
    chosen = {pieces[int(place)] for each in weights for place in np.argsort(each)[-NUM_CANDIDATES:]}
    return [halve(pieces, piece[0]) for piece in sorted(chosen) if may_be_halved(costs.task, piece)]


def _place_in_grid(costs: PieceCosts, lists: Sequence[Pieces]) -> list[Filling]:
    """Return the fastest placement of each list of pieces (tables or parts). Each limit in CAPS on a device's number
    of columns is tried.

    Lists of equal length are placed together.
    """
    mean = sum(table.dim for table in costs.task.tables) / costs.task.num_devices
    best: dict[Pieces, Filling] = {}
    for length in {len(pieces) for pieces in lists}:
        alike = [pieces for pieces in lists if len(pieces) == length]
        ordered = [costs.ordered(pieces) for pieces in alike for _ in CAPS]
        filled = fill_devices(costs, ordered, [cap * mean for _ in alike for cap in CAPS])
        best |= {pieces: min(filled[at * len(CAPS) : (at + 1) * len(CAPS)]) for at, pieces in enumerate(alike)}
    return [best[pieces] for pieces in lists]
