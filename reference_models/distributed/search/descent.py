"""Improve a placement by moving and swapping tables (or parts) between devices.

Moves and swaps are made until all tables fit the devices' memory, or until none makes the slowest device faster.
"""

import numpy as np
from numpy.typing import NDArray

from reference_models.distributed.search.pieces import Filling, Held, PieceCosts, Pieces

LEAST_GAIN = 1e-9
"""Least gain of a move or swap, as a share of the slowest device's seconds; smaller gains are rounding errors."""
_MAX_STEPS = {True: 2_000, False: 100}
_NUM_TRIED = {True: 1, False: 4}
"""Number of moves or swaps whose costs are computed at a time, the most promising first: a dict whose key says
whether the cost of a set of tables is the sum of the tables' costs."""
Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


class PieceLayout:
    """Placement of pieces (tables or parts of tables) as arrays: each piece's device, bytes and seconds."""

    def __init__(self, costs: PieceCosts, held: Held) -> None:
        self.costs, self.num_devices = costs, len(held)
        self.pieces: Pieces = tuple(piece for of in held for piece in of)
        self.device = np.repeat(np.arange(len(held)), [len(of) for of in held])
        self.sizes = costs.sizes(self.pieces)
        self.weights, self.is_exact = costs.weights(self.pieces)
        self.is_free = costs.homes_of(self.pieces) < 0
        self.num_moves = self.num_swaps = 0

    @property
    def used(self) -> Floats:
        """Bytes of the tables on each device: float64 [devices]."""
        return _sum_by(self.device, self.sizes, self.num_devices)

    @property
    def loads(self) -> Floats:
        """Seconds per step of each device, float64 [devices]. A device's fixed time is included unless the cost
        function is a plain sum over tables."""
        return _sum_by(self.device, self.weights, self.num_devices) if self.is_exact else self.costs(self.held)

    @property
    def held(self) -> Held:
        """Pieces (tables or parts of tables) on each device."""
        return tuple(self.on(device) for device in range(self.num_devices))

    def on(self, device: int, away: int = -1, added: int = -1) -> Pieces:
        """Return the pieces (tables or parts) on a device, without the piece with the index `away`, and with the
        piece with the index `added`; -1 for no piece."""
        there = [int(at) for at in np.flatnonzero(self.device == device) if at != away]
        return tuple(self.pieces[at] for at in [*there, *([added] if added >= 0 else [])])

    def steps(self, source: int) -> tuple[Integers, Integers, Integers]:
        """Return all moves and swaps that take a piece off the device `source`, as three arrays [steps]: the piece,
        the piece that comes in return (-1 for a move), and the target device."""
        mine, theirs = (np.flatnonzero(self.is_free & on) for on in (self.device == source, self.device != source))
        others = np.delete(np.arange(self.num_devices), source)
        second = np.concatenate((np.full(len(others), -1), theirs))
        target = np.concatenate((others, self.device[theirs]))
        return np.repeat(mine, len(second)), np.tile(second, len(mine)), np.tile(target, len(mine))

    def take(self, first: int, second: int, target: int) -> None:
        """Move the piece `first` to the device `target`, or swap it for the piece `second` on that device; -1 for no
        swap."""
        if second >= 0:
            self.device[second] = self.device[first]
            self.num_swaps += 1
        else:
            self.num_moves += 1
        self.device[first] = target


def _sum_by(device: Integers, values: Floats, num_devices: int) -> Floats:
    return np.bincount(device, values, num_devices).astype(np.float64)


def _leaving(values: Floats, first: Integers, second: Integers) -> Floats:
    """Return by how much each possible step (a move or a swap of pieces) changes the load of the two devices: taken
    from the source and added to the target [steps]. `values` has the bytes, or the seconds, of each piece. The result
    may be negative for a swap."""
    return np.asarray(values[first] - np.where(second >= 0, values[second], 0.0))


def settle(layout: PieceLayout) -> bool:
    """Move and swap pieces (tables or parts) until they fit every device's memory; return whether they do.

    Each step is the move or swap that leaves the fewest bytes in excess of the devices' memory. Among equal ones, it
    is the one after which the slower of its two devices takes the least time.
    """
    while (over := np.maximum(layout.used - layout.costs.task.memory_bytes, 0.0)).any():
        sources = np.argsort(-over)[: np.count_nonzero(over)].tolist()
        step = next((found for source in sources if (found := _best_step(layout, source, over))), None)
        if step is None:
            return False
        layout.take(*step)
    return True


def _best_step(layout: PieceLayout, source: int, over: Floats) -> tuple[int, int, int] | None:
    """Return the move or swap (piece, piece in return, target device) off the device `source` that most reduces the
    bytes in excess of the devices' memory.

    Returns None if no move or swap reduces them.
    """
    first, second, target = layout.steps(source)
    if not len(first):
        return None
    size, weight = (_leaving(values, first, second) for values in (layout.sizes, layout.weights))
    loads = _sum_by(layout.device, layout.weights, layout.num_devices)
    free = layout.costs.task.memory_bytes - layout.used
    left = np.maximum(size * -1 - free[source], 0.0) + np.maximum(size - free[target], 0.0)
    slower = np.maximum(loads[source] - weight, loads[target] + weight)
    best = int(np.lexsort((slower, left - over[target]))[0])
    is_less = left[best] < over[source] + over[target[best]]
    return (int(first[best]), int(second[best]), int(target[best])) if is_less else None


def descend(layout: PieceLayout) -> Filling:
    """Repeat the move or swap of pieces that most reduces the seconds of the slowest device and fits the devices'
    memory, until none reduces them. Return these seconds, and the placement."""
    costs, memory = layout.costs, layout.costs.task.memory_bytes
    for _ in range(_MAX_STEPS[layout.is_exact]):
        loads, used = layout.loads, layout.used
        source = int(loads.argmax())
        first, second, target = layout.steps(source)
        size, weight = (_leaving(values, first, second) for values in (layout.sizes, layout.weights))
        slower = np.maximum(loads[source] - weight, loads[target] + weight)
        fits = (used[target] + size <= memory) & (used[source] - size <= memory)
        order = np.flatnonzero(fits)[np.argsort(slower[fits], kind="stable")][: _NUM_TRIED[layout.is_exact]]
        if not len(order):
            break
        if layout.is_exact:
            seconds = slower[order]
        else:
            tried = [(int(first[at]), int(second[at]), int(target[at])) for at in order]
            sets = [layout.on(source, away, added) for away, added, _ in tried]
            sets += [layout.on(to, added, away) for away, added, to in tried]
            seconds = costs(sets).reshape(2, -1).max(axis=0)
        best = int(seconds.argmin())
        if not seconds[best] < loads[source] * (1 - LEAST_GAIN):
            break
        layout.take(int(first[order[best]]), int(second[order[best]]), int(target[order[best]]))
    held = layout.held
    return float(costs(held).max()), held
