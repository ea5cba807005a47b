"""Points of a PE array's space, modelled, and those than which no other is better."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Literal

import numpy as np

from harness.extensions.codesign.accelerator import Nest, PEArray, Point, model_nest

Objective = Literal["latency_s", "energy_j"]


@dataclass(frozen=True, slots=True)
class Trial:
    """A point, and what all nests take there one after another; infinite where it is invalid."""

    point: Point
    violations: tuple[float, float, float]
    latency_s: float = inf
    energy_j: float = inf

    @property
    def energy_delay(self) -> float:
        return self.latency_s * self.energy_j

    def values(self, objectives: Sequence[Objective]) -> tuple[float, ...]:
        return tuple(getattr(self, name) for name in objectives)


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """What is searched: the nests of a benchmark on a PE array, by one objective or two."""

    nests: Sequence[Nest]
    array: PEArray
    objectives: Sequence[Objective]
    """The first decides among the tilings of a nest."""

    def evaluate(self, point: Point) -> Trial:
        """Model a point, each nest in the tiling that is best in the first of the objectives."""
        if any(violations := self.array.find_violations(point)):
            return Trial(point, violations)
        found = [find_tiling(nest, point, self.array, self.objectives[0]) for nest in self.nests]
        return Trial(point, violations, sum(each[1] for each in found), sum(each[2] for each in found))


def find_tiling(nest: Nest, point: Point, array: PEArray, objective: Objective) -> tuple[int, float, float, int]:
    """Return the index of the best tiling of a nest in an objective, the other one decides among equals; its seconds,
    joules and cycles."""
    cycles, *costs = model_nest(nest, point, array)
    index = int(np.lexsort(costs if objective == "energy_j" else costs[::-1])[0])
    return index, float(costs[0][index]), float(costs[1][index]), int(cycles[index])


def find_pareto(trials: Sequence[Trial], objectives: Sequence[Objective]) -> list[Trial]:
    """Return the valid trials than which none is better in one of up to two objectives and as good in the other."""
    least, found = inf, list[Trial]()
    for trial in sorted(trials, key=lambda trial: trial.values(objectives)):
        if (last := trial.values(objectives)[-1]) < least:
            least = last
            found.append(trial)
    return found
