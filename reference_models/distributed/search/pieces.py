"""Pieces (tables, or parts of tables by columns) to place on devices, and the costs of sets of pieces on a device."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from reference_models.distributed.search.costs import Seconds, SetCost, add_up
from reference_models.distributed.search.task import EmbeddingTable, Task

Piece = tuple[int, int]
"""Piece to place on a device: the number of its table, and the number of the table's columns that it has (all or
some)."""
Pieces = tuple[Piece, ...]
Held = tuple[Pieces, ...]
"""Pieces (tables or parts of tables) on each device."""
Filling = tuple[float, Held]
"""Placement of pieces (tables or parts): the seconds of the slowest device, infinite if a piece found no room, and
the pieces on each device."""
COLUMN_STEP = 4
"""Number of columns that FBGEMM's kernels load at once. The number of columns of each part of a table must be a
multiple of it."""


class PieceCosts:
    """Costs of sets of pieces (tables or parts) of a placement task, each set computed once; also the size and the
    cost of each piece."""

    def __init__(self, task: Task, cost: SetCost) -> None:
        self.task, self._cost, self.homes = task, cost, dict(task.kept)
        self._tables: dict[Piece, EmbeddingTable] = {}
        self._known: dict[Pieces, float] = {(): 0.0}

    def table(self, piece: Piece) -> EmbeddingTable:
        """Return a piece (a table or some columns of one) as a table of its own."""
        if piece not in self._tables:
            self._tables[piece] = self.task.tables[piece[0]].with_columns(piece[1])
        return self._tables[piece]

    def sizes(self, pieces: Pieces) -> Seconds:
        """Return the bytes of each piece (table or part), weights and optimizer state: float64 [pieces]."""
        return np.array([self.table(piece).memory_bytes for piece in pieces], dtype=float)

    def alone(self, pieces: Pieces) -> Seconds:
        """Return the seconds per step of each piece (table or part) if it is alone on a device: float64 [pieces]."""
        return self([(piece,) for piece in pieces])

    def ordered(self, pieces: Pieces) -> Pieces:
        """Return the pieces (tables or parts) in falling order of their seconds alone on a device; pieces of equal
        seconds in falling order of bytes.

        Pieces that the task keeps on a given device come first.
        """
        is_free = self.homes_of(pieces) < 0
        return tuple(pieces[place] for place in np.lexsort((-self.sizes(pieces), -self.alone(pieces), is_free)))

    def homes_of(self, pieces: Pieces) -> NDArray[np.int64]:
        """Return the device on which the task keeps each piece (table or part), -1 for a piece that may be on any
        device: int64 [pieces]."""
        return np.array([self.homes.get(piece[0], -1) for piece in pieces], np.int64)

    def weights(self, pieces: Pieces) -> tuple[Seconds, bool]:
        """Return the seconds that each piece (table or part) adds to its device, and whether these are exact.

        They are exact if the cost of a set is a sum over its tables; otherwise they are the seconds of each piece
        alone.
        """
        parts = add_up(self._cost, [self.table(piece) for piece in pieces])
        return (self.alone(pieces), False) if parts is None else (parts[0], True)

    def __call__(self, sets: Sequence[Pieces]) -> Seconds:
        """Return the seconds per step of each set of pieces (tables or parts); sets not seen before are computed
        together."""
        new = [pieces for pieces in dict.fromkeys(sets) if pieces not in self._known]
        if new:
            costs = self._cost([[self.table(piece) for piece in pieces] for pieces in new])
            self._known.update(zip(new, costs.tolist(), strict=True))
        return np.array([self._known[pieces] for pieces in sets])


def fill_devices(
    costs: PieceCosts, lists: Sequence[Pieces], caps: Sequence[float], *, overflows: bool = False
) -> list[Filling]:
    """Place each of several lists of pieces (tables or parts) on the devices, greedily. Return for each list the
    seconds of the slowest device, and the pieces on each device.

    Pieces are placed in their list's order. Each goes to the device of least cost so far, or of fewest bytes among
    equals, that has enough memory and stays within the list's limit of columns per device, `caps`. If a piece fits no
    device, the list's placement fails and has an infinite cost; with `overflows`, the piece goes to the device with
    the fewest bytes instead.

    All lists have the same length: each step places one piece of every list, so that one call computes all costs.
    """
    task, num_lists = costs.task, len(lists)
    loads, memory, columns = np.zeros((3, num_lists, task.num_devices))
    held: list[list[Pieces]] = [[()] * task.num_devices for _ in lists]
    limits, alive = np.asarray(caps)[:, None], np.ones(num_lists, dtype=bool)
    for pieces in zip(*lists, strict=True):
        sizes = np.array([[costs.table(piece).memory_bytes] for piece in pieces], dtype=float)
        widths = np.array([[piece[1]] for piece in pieces], dtype=float)
        homes = costs.homes_of(pieces)[:, None]
        may_be_on = (homes < 0) | (homes == np.arange(task.num_devices))
        fits = (memory + sizes <= task.memory_bytes) & (columns + widths <= limits) & may_be_on
        if overflows:
            emptiest = np.where(may_be_on, memory, math.inf)
            fits |= ~fits.any(axis=1, keepdims=True) & (emptiest == emptiest.min(axis=1, keepdims=True))
        alive &= fits.any(axis=1)
        load = np.where(fits, loads, math.inf)
        is_least = fits & (load == load.min(axis=1, keepdims=True))
        rows, devices = np.flatnonzero(alive), np.where(is_least, memory, math.inf).argmin(axis=1)[alive]
        for row, device in zip(rows.tolist(), devices.tolist(), strict=True):
            held[row][device] += (pieces[row],)
        memory[rows, devices] += sizes[alive, 0]
        columns[rows, devices] += widths[alive, 0]
        loads[rows, devices] = costs([held[row][device] for row, device in zip(rows, devices, strict=True)])
    slowest = np.where(alive, loads.max(axis=1), math.inf)
    return [*zip(slowest.tolist(), map(tuple, held), strict=True)]


def whole_tables(task: Task) -> Pieces:
    """Return each table of a placement task as one piece: its number, and all its columns."""
    return tuple((number, table.dim) for number, table in enumerate(task.tables))


def may_be_halved(task: Task, piece: Piece) -> bool:
    """Return whether a run would accept a plan in which all parts of the piece's table are halved.

    TorchRec's column_wise cuts a table into equal parts. FBGEMM needs parts whose numbers of columns are multiples of
    COLUMN_STEP. Row-wise Adagrad would keep a state for each part, so its tables stay whole. Tables that the task
    keeps on a device stay whole, too.
    """
    if piece[0] in dict(task.kept):
        return False
    return piece[1] % (2 * COLUMN_STEP) == 0 and task.tables[piece[0]].optimizer != "rowwise_adagrad"


def halve(pieces: Pieces, table: int) -> Pieces:
    """Return the pieces (tables or parts) with every part of the table number `table` halved, so that the table's
    parts stay equal."""
    parts = [piece for piece in pieces if piece[0] == table]
    halves = [(table, num_columns // 2) for _, num_columns in parts for _ in range(2)]
    return tuple(sorted([*(piece for piece in pieces if piece[0] != table), *halves]))
