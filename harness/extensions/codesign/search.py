"""Search for the best hardware of a PE array and the best tile size on it: first one and then the other, or both at
once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import log, prod
from typing import Literal

from msgspec.structs import asdict

from harness.extensions.codesign.accelerator import HARDWARE, TILE
from harness.extensions.codesign.designs import DesignProblem, ModelledDesign, find_pareto
from harness.extensions.codesign.exhaustive import enumerate_points, is_enumerable
from harness.extensions.codesign.sampling import Choices, Method, sample

Mode = Literal["separate", "joint"]
MODE_NAMES: Mapping[Mode, str] = {"separate": "hardware first", "joint": "together"}
"""Words for the modes of a search, by the values of --mode: hardware before the tile, or both at once."""


@dataclass(frozen=True, slots=True)
class SearchOutcome:
    """Outcome of one search of a design space: the Pareto front that was found, the number of all points of the
    space, and the number of points that were tried."""

    best: Sequence[ModelledDesign]
    num_points: int
    num_tried: int
    num_valid: int | None
    """Number of valid points of the design space; None where not all of its points were tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DesignOutcomes:
    """Outcomes of all searches of a study of an accelerator, and the hand-made design, which is their baseline."""

    problem: DesignProblem
    by_hand: ModelledDesign
    hardware: SearchOutcome
    tiles: SearchOutcome
    joint: SearchOutcome | None
    """Outcome of searching hardware and tiles together; None if that search was not made: the user did not ask for
    it, and it would have taken more than about a minute."""

    @property
    def best(self) -> Mapping[Mode, Sequence[ModelledDesign]]:
        """Pareto front of the designs found, for each mode of search. The front of mode `joint` (hardware and tile
        together) is over its own designs and those of mode `separate` (first hardware, then tile)."""
        objectives = self.problem.objectives
        separate = find_pareto([self.by_hand, *self.hardware.best, *self.tiles.best], objectives)
        if self.joint is None:
            return {"separate": separate}
        return {"separate": separate, "joint": find_pareto([*separate, *self.joint.best], objectives)}

    @property
    def optimum(self) -> Sequence[ModelledDesign] | None:
        """Pareto front of all points of the design space; None where not all were tried."""
        return None if self.joint is None or self.joint.num_valid is None else self.joint.best


def search(
    problem: DesignProblem,
    choices: Choices,
    start: Sequence[ModelledDesign],
    method: Method,
    num_trials: int,
    seed: int,
) -> SearchOutcome:
    """Try all points of a design space where that takes about a minute, else up to `num_trials` valid points,
    beginning with the points of the designs in `start`. Return the Pareto front, the number of all points and the
    number of points tried."""
    num_points = prod(map(len, choices.values()))
    if is_enumerable(problem, choices):
        best, num_valid = enumerate_points(problem, choices)
        return SearchOutcome(best, num_points, num_points, num_valid)

    def score(design: ModelledDesign) -> tuple[float, ...]:
        return tuple(map(log, design.values(problem.objectives)))

    designs = sample(problem, choices, [design.point for design in start], method, num_trials, seed, score)
    return SearchOutcome(find_pareto(designs, problem.objectives), num_points, len(designs), None)


def search_all(
    problem: DesignProblem, modes: Sequence[Mode], method: Method, num_trials: int, seed: int
) -> DesignOutcomes:
    """Make three searches and return their outcomes: of hardware, with the tile (the loop blocking) of the hand-made
    design; of the tile, for the hardware found; of hardware and tile together.

    The third search is left out if `modes` lacks 'joint' and the space is too large to try all of its points.
    """
    space = asdict(problem.array.space)

    def run(fixed: Mapping[str, int], start: Sequence[ModelledDesign]) -> SearchOutcome:
        choices = {name: (fixed[name],) if name in fixed else values for name, values in space.items()}
        return search(problem, choices, start, method, num_trials, seed)

    by_hand = problem.evaluate({name: values[0] for name, values in space.items()})
    hardware = run({name: by_hand.point[name] for name in TILE}, [by_hand])
    chosen = min([by_hand, *hardware.best], key=lambda design: prod(design.values(problem.objectives)))
    tiles = run({name: chosen.point[name] for name in HARDWARE}, [chosen])
    searched = DesignOutcomes(problem=problem, by_hand=by_hand, hardware=hardware, tiles=tiles, joint=None)
    if "joint" in modes or is_enumerable(problem, space):
        return replace(searched, joint=run({}, [by_hand, *searched.best["separate"]]))
    return searched
