"""Hardware of a PE array and the largest tile on it, searched one after the other and both at once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import log, prod
from typing import Literal

from msgspec.structs import asdict

from harness.extensions.codesign.accelerator import HARDWARE, TILE
from harness.extensions.codesign.exhaustive import enumerate_points, is_enumerable
from harness.extensions.codesign.sampling import Choices, Method, sample
from harness.extensions.codesign.trials import Problem, Trial, find_pareto

Mode = Literal["separate", "joint"]


@dataclass(frozen=True, slots=True)
class SearchOutcome:
    """What a search found: the trials that no other is better than, and how many there were."""

    best: Sequence[Trial]
    num_points: int
    num_tried: int
    num_valid: int | None
    """Valid points of the space; None where it was not tried whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DesignOutcomes:
    """What the searches of a study found, and the design by hand."""

    problem: Problem
    by_hand: Trial
    hardware: SearchOutcome
    tiles: SearchOutcome
    joint: SearchOutcome | None
    """None where it was neither asked for nor a matter of a minute."""

    @property
    def best(self) -> Mapping[Mode, Sequence[Trial]]:
        """By mode the designs that no other of it is better than; joint has those of separate before it."""
        objectives = self.problem.objectives
        separate = find_pareto([self.by_hand, *self.hardware.best, *self.tiles.best], objectives)
        if self.joint is None:
            return {"separate": separate}
        return {"separate": separate, "joint": find_pareto([*separate, *self.joint.best], objectives)}

    @property
    def optimum(self) -> Sequence[Trial] | None:
        """The best of all points; None where not all were tried."""
        return None if self.joint is None or self.joint.num_valid is None else self.joint.best


def search(
    problem: Problem, choices: Choices, start: Sequence[Trial], method: Method, num_trials: int, seed: int
) -> SearchOutcome:
    """Try all points where that takes about a minute, else up to `num_trials` valid ones, those of `start` first."""
    num_points = prod(map(len, choices.values()))
    if is_enumerable(problem, choices):
        best, num_valid = enumerate_points(problem, choices)
        return SearchOutcome(best, num_points, num_points, num_valid)

    def score(trial: Trial) -> tuple[float, ...]:
        return tuple(map(log, trial.values(problem.objectives)))

    trials = sample(problem, choices, [trial.point for trial in start], method, num_trials, seed, score)
    return SearchOutcome(find_pareto(trials, problem.objectives), num_points, len(trials), None)


def search_all(problem: Problem, modes: Sequence[Mode], method: Method, num_trials: int, seed: int) -> DesignOutcomes:
    """Search hardware for the tile by hand, the tile for that hardware, and both at once: the last where it is asked
    for, or tries all points and so has the optimum."""
    space = asdict(problem.array.space)

    def run(fixed: Mapping[str, int], start: Sequence[Trial]) -> SearchOutcome:
        choices = {name: (fixed[name],) if name in fixed else values for name, values in space.items()}
        return search(problem, choices, start, method, num_trials, seed)

    by_hand = problem.evaluate({name: values[0] for name, values in space.items()})
    hardware = run({name: by_hand.point[name] for name in TILE}, [by_hand])
    chosen = min([by_hand, *hardware.best], key=lambda trial: prod(trial.values(problem.objectives)))
    tiles = run({name: chosen.point[name] for name in HARDWARE}, [chosen])
    searched = DesignOutcomes(problem=problem, by_hand=by_hand, hardware=hardware, tiles=tiles, joint=None)
    if "joint" in modes or is_enumerable(problem, space):
        return replace(searched, joint=run({}, [by_hand, *searched.best["separate"]]))
    return searched
