"""Search a design space that is too large to be modelled whole: at random, by NSGA-II or by a Gaussian process.

Only valid points are modelled and count as trials. Whether a point is valid (within the array's limits) is known
without modelling it, so an invalid proposal is dropped at no cost.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, Literal

import numpy as np

from harness.extensions.codesign.accelerator import DesignPoint, PEArray
from harness.extensions.codesign.designs import DesignProblem, ModelledDesign
from harness.foundation.optuna import quiet_optuna

Method = Literal["gp", "nsga2", "random"]
Choices = Mapping[str, Sequence[int]]
Score = Callable[[ModelledDesign], tuple[float, ...]]
"""Function from a valid design to the numbers that its search minimises."""
POPULATION = 20
"""Number of design points in one generation of the evolutionary search NSGA-II."""
MOST_BY_GP = 200
"""Maximum number of valid points that a search by a Gaussian process models, as the process is fitted anew for each
point."""
NUM_DRAWN: Mapping[Method, int] = {"gp": 10, "nsga2": POPULATION}
"""Dict from search methods (a Gaussian process, NSGA-II) to the number of design points that are modelled before the
method proposes any: the given starting points, and others drawn at random."""
_BATCH = 4096
"""Number of design points drawn at once."""
_MOST_DRAWS = 1 << 22
"""Number of invalid design points drawn in a row after which a design space is taken to have no further valid
point."""
_MOST_REFUSED = 100
"""Number of proposals in a row that are invalid or already modelled, after which NSGA-II is given a design point
drawn at random."""
_REACH = (0.05, 0.1, 0.2, 0.4, 1.0)
"""Distances within which a valid point is looked for around a proposed design point, nearest first. A distance is in
steps of each parameter's values, as a share of the number of its values."""


def draw_valid(array: PEArray, choices: Choices, generator: np.random.Generator) -> Iterator[DesignPoint]:
    """Yield valid points of a design space, drawn uniformly, as long as the caller takes them; stop where _MOST_DRAWS
    draws in a row are invalid."""
    num_missed = 0
    while num_missed < _MOST_DRAWS:
        drawn = {name: generator.choice(np.array(values, dtype=float), _BATCH) for name, values in choices.items()}
        is_valid = array.are_valid(drawn)
        num_missed = 0 if is_valid.any() else num_missed + _BATCH
        for index in np.flatnonzero(is_valid):
            yield {name: int(values[index]) for name, values in drawn.items()}


def sample(
    problem: DesignProblem,
    choices: Choices,
    start: Sequence[DesignPoint],
    method: Method,
    num_trials: int,
    seed: int,
    score: Score,
) -> list[ModelledDesign]:
    """Return the modelled designs of up to `num_trials` distinct valid points, those of `start` first; fewer where no
    more are found.

    Raises HarnessError (exit 2) where optuna is not installed and the method needs it.
    """
    run = _Run(problem, choices, start, num_trials, seed, score)
    {"gp": _sample_by_gp, "nsga2": _sample_by_nsga2, "random": _sample_at_random}[method](run)
    return [*run.found.values()]


class _Run:
    """One search of a design space: the designs modelled so far, by the values of their points, and how further
    points are drawn and modelled."""

    def __init__(
        self,
        problem: DesignProblem,
        choices: Choices,
        start: Sequence[DesignPoint],
        num_trials: int,
        seed: int,
        score: Score,
    ) -> None:
        self.found, self.score, self.seed, self.num_trials = (
            dict[tuple[int, ...], ModelledDesign](),
            score,
            seed,
            num_trials,
        )
        self._problem = problem
        self._sides = {name: sorted(values) for name, values in choices.items()}
        self._generator = np.random.default_rng(seed)
        drawn = draw_valid(problem.array, choices, self._generator)
        self._drawn = chain(start, islice(drawn, 100 * num_trials + _BATCH))

    @property
    def is_done(self) -> bool:
        return len(self.found) >= self.num_trials

    def begin(self, num: int) -> list[ModelledDesign]:
        """Return the designs with which a search begins: its starting points, then randomly drawn ones, `num` in all
        or fewer if the space has no more. Each is evaluated by the cost model."""
        while len(self.found) < min(num, self.num_trials) and (point := self.draw()) is not None:
            self.model(point)
        return [*self.found.values()]

    def has(self, point: DesignPoint) -> bool:
        return tuple(point.values()) in self.found

    def draw(self) -> DesignPoint | None:
        """Return a valid design point that was not modelled yet; None where no such point is found."""
        return next((point for point in self._drawn if not self.has(point) and self.is_valid(point)), None)

    def is_valid(self, point: DesignPoint) -> bool:
        return not any(self._problem.array.find_violations(point))

    def bounds(self, point: DesignPoint) -> dict[str, float]:
        """Return by how much a design point exceeds area and scratchpad, as shares of their limits; negative below a
        limit."""
        area, scratchpad, _ = self._problem.array.find_excess(point)
        return {"area": area, "scratchpad": scratchpad}

    def model(self, point: DesignPoint) -> ModelledDesign:
        """Return the design at a point of the design space. The cost model evaluates it only when it is first asked
        for."""
        key = tuple(point.values())
        if key not in self.found:
            self.found[key] = self._problem.evaluate(point)
        return self.found[key]

    def distributions(self, optuna: Any, *, is_whole: bool) -> dict[str, Any]:
        """Return a distribution of optuna for each parameter of the design space. It is over the indices of the
        parameter's sorted values: whole numbers if `is_whole`, else real numbers."""
        kind = optuna.distributions.IntDistribution if is_whole else optuna.distributions.FloatDistribution
        return {name: kind(0, len(side) - 1) for name, side in self._sides.items()}

    def places(self, point: DesignPoint) -> dict[str, int]:
        return {name: side.index(point[name]) for name, side in self._sides.items()}

    def point(self, places: Mapping[str, int]) -> DesignPoint:
        return {name: side[places[name]] for name, side in self._sides.items()}

    def find_near(self, places: Mapping[str, float]) -> DesignPoint | None:
        """Return the valid, untried design point nearest to a proposal, among points drawn around it; None where none
        is found."""
        at = np.array([round(places[name]) for name in self._sides])
        last = np.array([len(side) - 1 for side in self._sides.values()])
        for reach in _REACH:
            width = np.ceil(reach * last).astype(int)
            ends = np.maximum(at - width, 0), np.minimum(at + width, last) + 1
            drawn = np.vstack([at, self._generator.integers(*ends, size=(_BATCH, len(at)))])
            sides = zip(self._sides.items(), drawn.T, strict=True)
            is_valid = self._problem.array.are_valid({name: np.array(side, float)[of] for (name, side), of in sides})
            order = np.argsort((((drawn - at) / np.maximum(last, 1)) ** 2).sum(axis=1), kind="stable")
            near = (self.point(dict(zip(self._sides, drawn[index], strict=True))) for index in order[is_valid[order]])
            if (point := next((point for point in near if not self.has(point)), None)) is not None:
                return point
        return None


def _sample_at_random(run: _Run) -> None:
    run.begin(run.num_trials)


def _sample_by_nsga2(run: _Run) -> None:
    """Breed valid design points by NSGA-II (Deb et al., 2002), and model them; an invalid child is bred again."""
    with quiet_optuna() as optuna:
        begun, distributions, num_refused = run.begin(POPULATION), run.distributions(optuna, is_whole=True), 0
        if not begun:
            return
        sampler = optuna.samplers.NSGAIISampler(population_size=POPULATION, seed=run.seed)
        study = optuna.create_study(directions=["minimize"] * len(run.score(begun[0])), sampler=sampler)
        for trial in begun:
            study.enqueue_trial(run.places(trial.point))
        while begun or not run.is_done:
            if num_refused == _MOST_REFUSED:
                if (drawn := run.draw()) is None:
                    return
                study.enqueue_trial(run.places(drawn))
            asked = study.ask(distributions)
            point = run.point(asked.params)
            if not run.is_valid(point):
                study.tell(asked, state=optuna.trial.TrialState.FAIL)
                num_refused += 1
                continue
            is_again = run.has(point) and not begun
            num_refused = num_refused + 1 if is_again else 0
            study.tell(asked, run.score(run.model(point)))
            begun = begun[1:]


def _sample_by_gp(run: _Run) -> None:
    """Search design points by Gaussian processes, one for the score and one for each limit (constrained expected
    improvement, Gardner et al., 2014). Each proposal is moved to the nearest valid point."""
    with quiet_optuna() as optuna:
        begun, distributions = run.begin(NUM_DRAWN["gp"]), run.distributions(optuna, is_whole=False)
        if not begun:
            return
        sampler = optuna.samplers.GPSampler(
            seed=run.seed, n_startup_trials=1, deterministic_objective=True, warn_independent_sampling=False
        )
        study = optuna.create_study(directions=["minimize"] * len(run.score(begun[0])), sampler=sampler)
        while True:
            for trial in begun:
                told = {"values": run.score(trial), "constraints": run.bounds(trial.point)}
                params = run.places(trial.point)
                study.add_trial(optuna.trial.create_trial(params=params, distributions=distributions, **told))
            if run.is_done:
                return
            asked = study.ask(distributions)
            study.tell(asked, state=optuna.trial.TrialState.FAIL)
            if (point := run.find_near(asked.params) or run.draw()) is None:
                return
            begun = [run.model(point)]
