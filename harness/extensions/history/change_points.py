"""Where the mean of a line of values changed: binary segmentation, a permutation test, one family for all lines.

A part of a line is split where the cumulative sum of its values is farthest from a level line, weighted by EDGE so
that a step is seen soon (a statistic of Rényi type: Horváth, Miller and Rice 2020, "A new class of change point
test statistics of Rényi type"). Its p is the share of orders of the values in which any split is as far. Parts are
tested by Holm's procedure, weighted by their numbers of sets; one that is split leaves its weight to its parts
(Goeman and Finos 2012, "The inheritance procedure"), so that of lines without a change none is split with
probability 1 - LEVEL.

That holds of independent sets. Sets that resemble their neighbours wander, which orders at random do not: a change
must be larger than what an AR(1) of the line's correlation does (WANDERING), and what is left beside the changes
must not resemble its neighbours (RESEMBLING). tests/core/test_reports/test_change_points.py simulates how often a
change is shown.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from reports.statistics.permutation import NUM_RANDOM
from reports.statistics.ratios import Floats

LEAST = 3
"""Sets on each side of a change."""
LEVEL = 0.05
EDGE = 0.8
"""At 0.5 all splits of a level line have one variance; above it, those near the ends count more."""
WANDERING, RESEMBLING = 0.11, 0.03
"""Levels of the two tests against what neighbours that resemble each other do."""
_CHUNK, _ENOUGH = 1_000, 100
_MOST_CORRELATED = 0.95
_SEED = 20_200_715
_ROUNDING = 1e-9


@dataclass(frozen=True, kw_only=True, slots=True)
class Changes:
    """The places of the first values after each change of a line, in their order.

    `is_correlated`: there would be some, but neighbours resemble each other. `is_too_short`: no values of this number
    show a change beside as many other lines.
    """

    places: tuple[int, ...] = ()
    is_correlated: bool = False
    is_too_short: bool = False


def find_changes(lines: Sequence[Floats], level: float = LEVEL) -> list[Changes]:
    """Find the changes of lines of values [n], each in the order of time, all of them one family."""
    left = {(line, 0, len(values)) for line, values in enumerate(lines) if len(values) >= 2 * LEAST}
    known: dict[tuple[int, int, int], tuple[int, float]] = {}
    places: list[list[int]] = [[] for _ in lines]
    total = sum(stop for _, _, stop in left)
    while True:
        weight = sum(stop - start for _, start, stop in left)
        for part in left - known.keys():
            known[part] = split_of(lines[part[0]][part[1] : part[2]])
        split = [part for part in left if known[part][1] <= level * (part[2] - part[1]) / weight]
        if not split:
            break
        for part in split:
            line, start, stop = part
            place = start + known[part][0]
            places[line].append(place)
            left.remove(part)
            left |= {(line, a, b) for a, b in ((start, place), (place, stop)) if b - a >= 2 * LEAST}
    return [
        Changes(is_too_short=True) if _least_p(len(values)) > level * len(values) / max(total, 1) else
        _judge(values, sorted(found)) for values, found in zip(lines, places, strict=True)
    ]  # fmt: skip


def _least_p(number: int) -> float:
    """The p of the clearest change that so many values can show: the largest or the least LEAST of them at an end."""
    ways = number * (number - 1) * (number - 2) / 6
    return min(2.0 / ways, 1.0) if number >= 2 * LEAST else 1.0


def _judge(values: Floats, places: Sequence[int]) -> Changes:
    """Leave out changes, the least certain first, that sets may have wandered to."""
    kept = list(places)
    while kept:
        wandered = [wandering_p(_without_others(values, kept, place)) for place in kept]
        if max(wandered) <= WANDERING:
            break
        del kept[int(np.argmax(wandered))]
    if places and (not kept or resembling_p(values, kept) <= RESEMBLING):
        return Changes(is_correlated=True)
    return Changes(places=tuple(kept))


def split_of(values: Floats) -> tuple[int, float]:
    """Return the place of the best split of values [n], n at least 2 * LEAST, and its p.

    Up to NUM_RANDOM orders from a fixed seed, counting the observed one; fewer where p is far above every level.
    """
    apart = _distances(values)
    place, least = int(apart.argmax()) + LEAST, float(apart.max()) * (1.0 - _ROUNDING)
    if least <= _ROUNDING * float(np.abs(values).max()):  # all are equal
        return place, 1.0
    generator, as_far, drawn = np.random.default_rng(_SEED), 1, 1
    rows = np.tile(values, (_CHUNK, 1))
    while drawn <= NUM_RANDOM and as_far <= _ENOUGH:
        as_far += int(np.count_nonzero(_distances(generator.permuted(rows, axis=1)).max(axis=1) >= least))
        drawn += _CHUNK
    return place, as_far / drawn


def wandering_p(values: Floats) -> float:
    """Return how often a line without change splits as far, whose neighbours are as correlated as these [n] are.

    An AR(1) of normal values; its correlation is 1 less half of von Neumann's (1941) ratio, at least 0.
    """
    ratio = float(np.square(np.diff(values)).sum() / np.square(values - values.mean()).sum())
    rho = min(max(1.0 - ratio / 2.0, 0.0), _MOST_CORRELATED)
    rows = np.random.default_rng(_SEED).standard_normal((_CHUNK, len(values)))
    for at in range(1, len(values)):
        rows[:, at] = rho * rows[:, at - 1] + np.sqrt(1.0 - rho**2) * rows[:, at]
    least = float(_distances(values).max() / values.std())
    return float(np.mean(_distances(rows).max(axis=1) / rows.std(axis=1) >= least))


def resembling_p(values: Floats, places: Sequence[int]) -> float:
    """Return how often neighbours differ as little where the values [n] of each part are in an order at random."""
    generator, parts = np.random.default_rng(_SEED), list(_parts(values, places))
    rows = np.concatenate([generator.permuted(np.tile(values[part], (_CHUNK, 1)), axis=1) for part in parts], axis=1)
    least = float(np.square(np.diff(values)).sum())
    return float(np.mean(np.square(np.diff(rows, axis=1)).sum(axis=1) <= least * (1.0 + _ROUNDING)))


def _without_others(values: Floats, places: Sequence[int], place: int) -> Floats:
    """The values as they would be had the mean changed at `place` alone."""
    means = np.concatenate([np.full(part.stop - part.start, values[part].mean()) for part in _parts(values, places)])
    after = np.arange(len(values)) >= place
    return np.asarray(values - means + np.where(after, means[place] - means[place - 1], 0.0))


def _parts(values: Floats, places: Sequence[int]) -> Iterator[slice]:
    yield from (slice(start, stop) for start, stop in pairwise((0, *places, len(values))))


def _distances(values: Floats) -> Floats:
    """How far each split that leaves LEAST values on both sides [..., n - 2 * LEAST + 1] is from a level line."""
    number = values.shape[-1]
    left = np.arange(LEAST, number - LEAST + 1)
    sums = np.cumsum(values - values.mean(axis=-1, keepdims=True), axis=-1)[..., LEAST - 1 : number - LEAST]
    return np.asarray(np.abs(sums) / (left * (number - left)) ** EDGE)
