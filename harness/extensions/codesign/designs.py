"""Model designs of an accelerator (points of a PE array's design space), and find their Pareto front."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Literal

import numpy as np

from harness.extensions.codesign.accelerator import DesignPoint, Nest, PEArray, model_nest

Objective = Literal["latency_s", "energy_j"]


@dataclass(frozen=True, slots=True)
class ModelledDesign:
    """A design point with latency in seconds and energy in joules of a training step whose loop nests run one after
    another; both are infinite for an invalid point."""

    point: DesignPoint
    violations: tuple[float, float, float]
    latency_s: float = inf
    energy_j: float = inf

    @property
    def energy_delay(self) -> float:
        return self.latency_s * self.energy_j

    def values(self, objectives: Sequence[Objective]) -> tuple[float, ...]:
        return tuple(getattr(self, name) for name in objectives)


@dataclass(frozen=True, slots=True, eq=False)
class DesignProblem:
    """A search problem: the loop nests of a benchmark's training step on a PE array, and one objective or two."""

    nests: Sequence[Nest]
    array: PEArray
    objectives: Sequence[Objective]
    """Objectives to minimise: latency, energy or both; the first decides which tiling a loop nest gets."""

    def evaluate(self, point: DesignPoint) -> ModelledDesign:
        """Return the design at a point of the design space, evaluated by the cost model. Each loop nest has the
        tiling that is best in the first objective (latency or energy)."""
        if any(violations := self.array.find_violations(point)):
            return ModelledDesign(point, violations)
        found = [find_tiling(nest, point, self.array, self.objectives[0]) for nest in self.nests]
        return ModelledDesign(point, violations, sum(each[1] for each in found), sum(each[2] for each in found))


def find_tiling(
    nest: Nest, point: DesignPoint, array: PEArray, objective: Objective
) -> tuple[int, float, float, int]:
    """Return the best tiling of a loop nest in an objective: its index, seconds, joules and cycles. The other
    objective decides between equally good tilings."""
    cycles, *costs = model_nest(nest, point, array)
    index = int(np.lexsort(costs if objective == "energy_j" else costs[::-1])[0])
    return index, float(costs[0][index]), float(costs[1][index]), int(cycles[index])


def find_pareto(designs: Sequence[ModelledDesign], objectives: Sequence[Objective]) -> list[ModelledDesign]:
    """Return the Pareto front of designs in one objective or two, sorted by the first objective, the best first."""
    least, found = inf, list[ModelledDesign]()
    for design in sorted(designs, key=lambda design: design.values(objectives)):
        if (last := design.values(objectives)[-1]) < least:
            least = last
            found.append(design)
    return found
