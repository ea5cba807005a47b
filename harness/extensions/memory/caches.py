"""How large a cache must be, and how one is best shared among tables, from exact miss-ratio curves."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from reference_models.data.traces.stack_distances import MissRatioCurve

_FINEST, _STEPS = 2.0**-8, 33
_MOST_UNITS = 1 << 12
"""Steps of the budget of rows: a budget of no more rows is kept exactly, of more rows rounded down by table."""


def find_size(curve: MissRatioCurve, hit_rate: float) -> int | None:
    """Return the fewest rows of an LRU cache that hits at least so often; None where none does."""
    size = int(np.searchsorted(curve.hits, hit_rate * curve.num_lookups, side="left"))
    return size if size < len(curve.hits) else None


def grid_sizes(num_rows: int, load_factor: float) -> NDArray[np.int64]:
    """Return sizes of a table's cache to choose from, among them none, all rows, and `load_factor` of them."""
    factors = np.geomspace(_FINEST * load_factor, 1.0, _STEPS)
    return np.unique((np.array([0.0, load_factor, *factors]) * num_rows).astype(np.int64))


def fit_sizes(
    sizes: Sequence[NDArray[np.int64]], misses: Sequence[NDArray[np.float64]], max_rows: int
) -> tuple[int, ...]:
    """Choose a size per table, `max_rows` at most in all, that minimises misses, by dynamic programming.

    `sizes` [tables][choices] rise from 0, `misses` are what each misses. Exact up to 4,096 rows.
    """
    unit = -(-max_rows // _MOST_UNITS) or 1
    left = max_rows // unit
    best, chosen, costs = np.zeros(left + 1), [], [-(-each // unit) for each in sizes]
    for of_table, missed in zip(costs, misses, strict=True):
        options = np.full((len(of_table), len(best)), np.inf)
        for option, cost in zip(options, of_table.tolist(), strict=True):
            option[cost:] = best[: max(0, len(best) - cost)]
        options += missed[:, None]
        chosen.append(np.argmin(options, axis=0))
        best = options.min(axis=0)
    found = []
    for table in reversed(range(len(sizes))):
        choice = chosen[table][left]
        found.append(int(sizes[table][choice]))
        left -= int(costs[table][choice])
    return tuple(reversed(found))


def fit_caches(
    curves: Sequence[MissRatioCurve], num_rows: Sequence[int], max_rows: int
) -> tuple[tuple[int, ...], ...]:
    """Return two choices of cache rows per table, `max_rows` in all: the fewest misses, and one load factor."""
    factor = min(1.0, max_rows / sum(num_rows))
    uniform = tuple(int(factor * num) for num in num_rows)
    sizes = [grid_sizes(num, factor) for num in num_rows]
    fitted = fit_sizes(sizes, [curve.misses(each) for curve, each in zip(curves, sizes, strict=True)], max_rows)
    return min(fitted, uniform, key=lambda chosen: count_misses(curves, chosen)), uniform


def count_misses(curves: Sequence[MissRatioCurve], sizes: Sequence[int]) -> float:
    """Return the misses of all tables, each with an LRU cache of its own."""
    return sum(float(curve.misses(np.array([size]))[0]) for curve, size in zip(curves, sizes, strict=True))
