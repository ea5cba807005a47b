"""Search a design space exhaustively: model all of its points where that takes at most about a minute."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import inf, prod

import numpy as np
from numpy.typing import NDArray

from harness.extensions.codesign.accelerator import HARDWARE, TILE, DesignPoint, Floats, Nest, model_nest
from harness.extensions.codesign.designs import DesignProblem, ModelledDesign, find_pareto

_MAX_WORK = 8e9
"""Number of tilings that one core models in about a minute, the limit of an exhaustive search. It counts all tilings
of all loop nests on all hardware designs."""
_TILE = 4
"""Computing time of each candidate for the largest tile, in units of the time in which one tiling is modelled."""
_CALL = 20_000
"""Computing time of each call that models a loop nest, in units of the time in which one tiling is modelled."""


def is_enumerable(problem: DesignProblem, choices: Mapping[str, Sequence[int]]) -> bool:
    """Return whether all points of a design space can be modelled in about a minute, judged by their number;
    `choices` has the values of each parameter."""
    num_tiles, num_hardware = (prod(len(choices[name]) for name in names) for names in (TILE, HARDWARE))
    work: float = sum(nest.tiles.shape[1] + _TILE * num_tiles + _CALL for nest in problem.nests) * num_hardware
    return work <= _MAX_WORK


def enumerate_points(
    problem: DesignProblem, choices: Mapping[str, Sequence[int]]
) -> tuple[list[ModelledDesign], int]:
    """Model every point of a design space; return the Pareto front and the number of valid points. `choices` has the
    values of each parameter.

    The result is exact, though points are not modelled one by one. On given hardware, all tilings of a loop nest are
    modelled once. A running minimum over tile sizes then gives the best tiling for each largest tile, since a largest
    tile allows all smaller tilings.
    """
    sides = [np.array(choices[name], dtype=float) for name in TILE]  # whose products may pass 2**63
    tiles = np.stack(np.meshgrid(*sides, indexing="ij"), axis=-1).reshape(-1, len(TILE))
    grids = [_Grid(nest, [choices[name] for name in TILE]) for nest in problem.nests]
    best, num_valid = list[ModelledDesign](), 0
    for hardware in _hardware(choices):
        point = {**hardware, **dict(zip(TILE, tiles.T, strict=True))}
        is_valid = problem.array.are_valid(point)
        if not is_valid.any():
            continue
        num_valid += int(is_valid.sum())
        costs = np.zeros((2, tiles.shape[0]))
        for grid in grids:
            costs += grid.find_least(problem, hardware)
        values = {"latency_s": costs[0], "energy_j": costs[1]}
        first, last = (np.where(is_valid, values[problem.objectives[at]], inf) for at in (0, -1))
        order = np.lexsort((last, first))
        before = np.concatenate(([inf], np.minimum.accumulate(last[order])[:-1]))
        for index in order[last[order] < before]:
            tile = dict(zip(TILE, map(int, tiles[index]), strict=True))
            best.append(ModelledDesign({**hardware, **tile}, (0.0, 0.0, 0.0), *costs[:, index].tolist()))
    return find_pareto(best, problem.objectives), num_valid


def _hardware(choices: Mapping[str, Sequence[int]]) -> Iterator[DesignPoint]:
    return (dict(zip(HARDWARE, each, strict=True)) for each in product(*(choices[name] for name in HARDWARE)))


class _Grid:
    """All tilings of a loop nest. Each belongs to one point of the space of largest tiles: the smallest point that
    allows it."""

    def __init__(self, nest: Nest, choices: Sequence[Sequence[int]]) -> None:
        self._nest, self._shape = nest, tuple(map(len, choices))
        sides = [np.sort(each) for each in choices]
        self._places: list[NDArray[np.int64]] = [np.argsort(np.argsort(each)) for each in choices]
        at = [np.searchsorted(side, of) for side, of in zip(sides, nest.tiles, strict=True)]
        self._is_known = np.all([index < len(side) for index, side in zip(at, sides, strict=True)], axis=0)
        self._cells = np.ravel_multi_index([index[self._is_known] for index in at], self._shape)
        self._most = {name: max(each) for name, each in zip(TILE, choices, strict=True)}

    def find_least(self, problem: DesignProblem, hardware: DesignPoint) -> Floats:
        """Return the seconds and joules [2, tiles] of a loop nest on `hardware`, with one entry for each point of the
        space of largest tiles. An entry is of the tiling that is best by the first objective among those no larger
        than the point's tile; infinity if none fits."""
        _, *both = model_nest(self._nest, {**hardware, **self._most}, problem.array)
        costs = np.array([each[self._is_known] for each in both])
        order = np.lexsort(costs if problem.objectives[0] == "energy_j" else costs[::-1])
        ranks = np.empty(len(order), dtype=np.int64)
        ranks[order] = np.arange(len(order))
        least = np.full(prod(self._shape), len(order))
        np.minimum.at(least, self._cells, ranks)
        least = least.reshape(self._shape)
        for axis in range(least.ndim):
            least = np.minimum.accumulate(least, axis=axis)
        found = np.append(costs[:, order], [[inf], [inf]], axis=1)[:, least[np.ix_(*self._places)]]
        return found.reshape(2, -1)
