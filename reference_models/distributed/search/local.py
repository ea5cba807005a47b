"""Local search for a placement of embedding tables, by moves, swaps and cuts: the plain baseline for learned
searches."""

import math

from reference_models.distributed.search.costs import SetCost
from reference_models.distributed.search.descent import LEAST_GAIN, PieceLayout, descend
from reference_models.distributed.search.pieces import (
    Filling,
    Piece,
    PieceCosts,
    Pieces,
    fill_devices,
    halve,
    may_be_halved,
    whole_tables,
)
from reference_models.distributed.search.repair import find_room, plan_of
from reference_models.distributed.search.task import PlacementPlan, Task
from reference_models.process.errors import ConfigError

MAX_CUTS = 40
"""Maximum number of cuts of tables that the local search makes."""
PATIENCE = {True: 3, False: 1}
"""Number of cuts without gain after which the local search ends. The key is whether the cost of a set of tables is
the sum of the tables' costs; if it is not, judging a cut takes longer."""
_EVEN = 1 + 1e-3
"""Ratio of the slowest device's seconds to the devices' mean, up to which no table is cut, since cuts add work."""


def local(task: Task, cost: SetCost, seed: int) -> PlacementPlan:
    """Return the placement found by a local search: tables are placed in falling order of cost, then moved and
    swapped, then cut as long as cuts make the plan faster.

    Moves and swaps end when neither makes the slowest device faster. Then the costliest piece (table or part) on the
    slowest device is halved, among those that may be halved. All other parts of the piece's table are halved, too.
    Then the search begins again with the new pieces. Nothing is random. Raises ConfigError if neither whole tables
    nor parts fit the devices' memory.
    """
    costs = PieceCosts(task, cost)
    pieces, best, fault, num_vain = whole_tables(task), None, None, 0
    patience = PATIENCE[costs.weights(pieces)[1]]
    for _ in range(1 + MAX_CUTS):
        found = None
        try:
            found = improve(costs, pieces, "local")
        except ConfigError as error:
            fault = fault or error
        if best is None:
            best = found
        elif found is not None and found[0] < best[0] * (1 - LEAST_GAIN):
            best, num_vain = found, 0
        else:
            num_vain += 1
        piece = _choose_cut(costs, pieces, found)
        if piece is None or num_vain == patience:
            break
        pieces = halve(pieces, piece[0])
    if best is not None:
        return plan_of(costs, best[1], "local")
    assert fault is not None
    raise fault


def improve(costs: PieceCosts, pieces: Pieces, search: str) -> Filling:
    """Place tables or parts in falling order of cost, find room for all of them, then move and swap them.

    Raises ConfigError, as `find_room` does, if they do not fit the devices' memory.
    """
    (filled,) = fill_devices(costs, [costs.ordered(pieces)], [math.inf], overflows=True)
    return descend(PieceLayout(costs, find_room(costs, filled[1], search)[0]))


def _choose_cut(costs: PieceCosts, pieces: Pieces, found: Filling | None) -> Piece | None:
    """Return the piece (table or part) to cut next: the costliest piece on the slowest device of the placement
    `found`. If `found` is None, since the pieces did not fit, return the largest piece of all.

    Pieces that may not be halved are passed over. Returns None if no piece may be halved, or if the devices are
    balanced.
    """
    if found is None:
        weights = costs.sizes(pieces)
    else:
        seconds = costs(found[1])
        if found[0] <= seconds.mean() * _EVEN:
            return None
        pieces = found[1][int(seconds.argmax())]
        weights = costs.weights(pieces)[0]
    order = sorted(zip(weights, pieces, strict=True), reverse=True)
    return next((piece for _, piece in order if may_be_halved(costs.task, piece)), None)
