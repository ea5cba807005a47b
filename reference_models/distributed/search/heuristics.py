"""Placing tables one after another: by published heuristics, by predicted cost, and within caps on columns."""

import math
from collections.abc import Callable, Sequence

import numpy as np

from reference_models.distributed.search.costs import Seconds, SetCost
from reference_models.distributed.search.task import Plan, Shard, Table, Task, place_whole
from reference_models.process.errors import ConfigError

Piece = tuple[int, int]
"""A table's number, and how many of its columns."""
Pieces = tuple[Piece, ...]
Filling = tuple[float, tuple[Pieces, ...]]
"""Seconds of the slowest device, infinite where a piece found none, and what each device was given."""


class PieceCosts:
    """A cost of sets, asked for each set of a task's pieces once, with the pieces themselves."""

    def __init__(self, task: Task, cost: SetCost) -> None:
        self.task, self._cost = task, cost
        self._tables: dict[Piece, Table] = {}
        self._known: dict[Pieces, float] = {(): 0.0}

    def table(self, piece: Piece) -> Table:
        """Return the piece as a table of its own."""
        if piece not in self._tables:
            self._tables[piece] = self.task.tables[piece[0]].with_columns(piece[1])
        return self._tables[piece]

    def sizes(self, pieces: Pieces) -> Seconds:
        """Return the bytes of each piece, float64."""
        return np.array([self.table(piece).memory_bytes for piece in pieces], dtype=float)

    def alone(self, pieces: Pieces) -> Seconds:
        """Return the seconds of each piece on a device of its own."""
        return self([(piece,) for piece in pieces])

    def ordered(self, pieces: Pieces) -> Pieces:
        """Return the pieces in falling order of their seconds alone, then of their bytes."""
        return tuple(pieces[place] for place in np.lexsort((-self.sizes(pieces), -self.alone(pieces))))

    def __call__(self, sets: Sequence[Pieces]) -> Seconds:
        """Return the seconds of each set; those that were not asked for before are one batch."""
        new = [pieces for pieces in dict.fromkeys(sets) if pieces not in self._known]
        if new:
            costs = self._cost([[self.table(piece) for piece in pieces] for pieces in new])
            self._known.update(zip(new, costs.tolist(), strict=True))
        return np.array([self._known[pieces] for pieces in sets])


def fill_devices(costs: PieceCosts, lists: Sequence[Pieces], caps: Sequence[float]) -> list[Filling]:
    """Place lists of pieces of equal length, each in its order and with its cap on the columns of a device.

    A piece goes to the device whose set costs least so far, of those that have the memory and stay within the cap;
    among equals to that which holds fewest bytes. All lists advance together: a step is one batch of sets.
    """
    task, num_lists = costs.task, len(lists)
    loads, memory, columns = np.zeros((3, num_lists, task.num_devices))
    held: list[list[Pieces]] = [[()] * task.num_devices for _ in lists]
    limits, alive = np.asarray(caps)[:, None], np.ones(num_lists, dtype=bool)
    for pieces in zip(*lists, strict=True):
        sizes = np.array([[costs.table(piece).memory_bytes] for piece in pieces], dtype=float)
        widths = np.array([[piece[1]] for piece in pieces], dtype=float)
        fits = (memory + sizes <= task.memory_bytes) & (columns + widths <= limits)
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


def plan_of(task: Task, filling: Filling, search: str) -> Plan:
    """Give pieces their columns, in the order of devices. Raises ConfigError where a piece found no device."""
    if math.isinf(filling[0]):
        raise no_plan(task, search)
    ends, shards = [0] * len(task.tables), []
    for device, pieces in enumerate(filling[1]):
        for table, num_columns in pieces:
            shards.append(Shard(table=table, first_column=ends[table], num_columns=num_columns, device=device))
            ends[table] += num_columns
    return Plan(shards=tuple(sorted(shards)))


def no_plan(task: Task, search: str) -> ConfigError:
    """Return the error that says why a search has no plan, with the bytes that are short where that proves it."""
    sizes = [table.memory_bytes for table in task.tables]
    if (short := sum(sizes) - task.num_devices * task.memory_bytes) > 0:
        why = (
            f"{sum(sizes)} bytes of tables on {task.num_devices} devices of {task.memory_bytes}, {short} bytes short"
        )
    elif (short := max(sizes) - task.memory_bytes) > 0:
        why = f"table {sizes.index(max(sizes))} alone is {short} bytes larger than a device of {task.memory_bytes}"
    else:
        why = f"a table found no device with room, {task.num_devices} of {task.memory_bytes} bytes each"
    return ConfigError(f"{search} finds no plan for {task.name}: {why}. Use more or larger devices.")


def whole_tables(task: Task) -> Pieces:
    """Return each table as one piece."""
    return tuple((number, table.dim) for number, table in enumerate(task.tables))


def place_in_order(task: Task, cost: SetCost, search: str) -> Plan:
    """Place the costliest table first, each on the device whose set costs least so far, as AutoShard's released code
    does. Raises ConfigError where a table finds no room."""
    costs = PieceCosts(task, cost)
    return plan_of(task, fill_devices(costs, [costs.ordered(whole_tables(task))], [math.inf])[0], search)


def _sum_of(weight: Callable[[Table], float]) -> SetCost:
    return lambda sets: np.array([sum(map(weight, tables)) for tables in sets])


def random(task: Task, cost: SetCost, seed: int) -> Plan:
    """Place the largest table first, each on any device that has room. Raises ConfigError where none has."""
    generator, devices = np.random.default_rng(seed), np.zeros(len(task.tables), dtype=np.int64)
    free = np.full(task.num_devices, task.memory_bytes)
    sizes = [table.memory_bytes for table in task.tables]
    for number in np.argsort(sizes)[::-1]:
        roomy = np.flatnonzero(free >= sizes[number])
        if not roomy.size:
            raise no_plan(task, "random")
        devices[number] = generator.choice(roomy)
        free[devices[number]] -= sizes[number]
    return place_whole(task, devices.tolist())


def dim(task: Task, cost: SetCost, seed: int) -> Plan:
    """Balance columns. Raises ConfigError where a table finds no room."""
    return place_in_order(task, _sum_of(lambda table: table.dim), "dim")


def lookup(task: Task, cost: SetCost, seed: int) -> Plan:
    """Balance columns times lookups per sample. Raises ConfigError where a table finds no room."""
    return place_in_order(task, _sum_of(lambda table: table.dim * table.pooling), "lookup")


def size_lookup(task: Task, cost: SetCost, seed: int) -> Plan:
    """Balance columns times lookups times log10 of rows. Raises ConfigError where a table finds no room."""
    weight = _sum_of(lambda table: table.dim * table.pooling * math.log10(table.num_embeddings))
    return place_in_order(task, weight, "size_lookup")


def greedy(task: Task, cost: SetCost, seed: int) -> Plan:
    """Balance the cost of what each device holds. Raises ConfigError where a table finds no room."""
    return place_in_order(task, cost, "greedy")
