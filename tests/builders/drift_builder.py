"""Simulated comparisons on a system that drifts, judged by the product's own functions."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from comparison_builder import GRID, make_side
from numpy.typing import NDArray

from reports.comparison.comparison import GroupContext, compare_results
from reports.comparison.drift_tolerance import NO_REPEATS, Repeats
from reports.comparison.records import Comparison
from reports.results.result import Result

Floats = NDArray[np.float64]
Noise = Callable[[np.random.Generator, int, int], Floats]
"""Logarithms of speed [sets, runs], of sets that follow each other in time."""

RCPS = Path(__file__).parents[2] / "rules" / "benchmarks" / "dlrm_tiny.rcps.json"


def shipped_epochs() -> Floats:
    """Where the shipped benchmark's own runs converged, all batch sizes together: on a grid of 5 % of an epoch."""
    points = json.loads(RCPS.read_text(encoding="utf-8")).values()
    return np.concatenate([point["Epochs to converge"] for point in points if isinstance(point, dict)])


def independent(spread: float) -> Noise:
    """Every run by itself."""
    return lambda generator, sets, runs: spread * generator.standard_normal((sets, runs))


def offsets(between: float, within: float = 0.003) -> Noise:
    """Every set as a whole, and its runs a little."""
    return lambda generator, sets, runs: (
        between * generator.standard_normal((sets, 1)) + within * generator.standard_normal((sets, runs))
    )


def wandering(spread: float, memory: float = 0.9) -> Noise:
    """A first-order autoregression from run to run, also over the end of a set."""

    def draw(generator: np.random.Generator, sets: int, runs: int) -> Floats:
        steps = spread * np.sqrt(1 - memory**2) * generator.standard_normal(sets * runs)
        found, value = np.empty(sets * runs), spread * generator.standard_normal()
        for index, step in enumerate(steps):
            value = memory * value + step
            found[index] = value
        return found.reshape(sets, runs)

    return draw


def trend(per_set: float, within: float = 0.003) -> Noise:
    """Slower and slower, by so much from one set to the next."""
    return lambda generator, sets, runs: (
        -per_set * np.arange(sets * runs).reshape(sets, runs) / runs
        + within * generator.standard_normal((sets, runs))
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Scene:
    """How two sets are measured: `step_time` stretches each step of new, `num_repeats` more sets of base's
    configuration come before, and runs are made in turns or one set after the other. Shared seeds have shared curves.
    """

    noise: Noise
    num_runs: int = 5
    share_seeds: bool = False
    in_turns: bool = False
    num_repeats: int = 0
    step_time: float = 1.0
    min_effect: float = 0.03


def simulate(scene: Scene, num_pairs: int, seed: int) -> Iterator[Comparison]:
    """Compare as many pairs of sets as asked for."""
    generator, epochs, runs = np.random.default_rng(seed), shipped_epochs(), scene.num_runs
    for _ in range(num_pairs):
        speeds = scene.noise(generator, scene.num_repeats + 2, runs)
        order = np.arange(2 * runs).reshape(2, runs)
        if scene.in_turns:  # A B, B A, A B ...
            turns = np.arange(2 * runs).reshape(runs, 2)
            turns[1::2] = turns[1::2, ::-1]
            order = turns.T
            speeds[-2:] = speeds[-2:].reshape(-1)[order]
        luck = generator.choice(epochs, speeds.shape)
        if scene.share_seeds:
            luck[-1] = luck[-2]
        base, new = (
            _side(generator, name, luck[index], speeds[index], scene, starts, stretch)
            for name, index, starts, stretch in (("base", -2, order[0], 1.0), ("new", -1, order[1], scene.step_time))
        )
        before = (
            _side(generator, f"repeat {index}", luck[index], speeds[index], scene, -np.arange(1, runs + 1), 1.0)
            for index in range(scene.num_repeats)
        )
        repeats = Repeats(groups=((*before, base),), is_given=True) if scene.num_repeats else NO_REPEATS
        yield compare_results(base, [new], min_effect=scene.min_effect, context=GroupContext(repeats=repeats))[0]


def _side(
    generator: np.random.Generator,
    label: str,
    epochs: Floats,
    speeds: Floats,
    scene: Scene,
    starts: NDArray[np.int64],
    step_time: float,
) -> Result:
    """Evaluations take a tenth of the time of unchanged steps, and drift as the steps do."""
    overheads = (1.0 + 0.1 / step_time) * np.exp(0.001 * generator.standard_normal(len(epochs)))
    side = make_side(
        label,
        [float(value) for value in epochs],
        [float(rate) for rate in 1e5 * np.exp(speeds) / step_time],
        [float(value) for value in overheads],
        seeds=range(len(epochs)) if scene.share_seeds else None,
        starts=[float(start) for start in starts],
        turns=None,
    )
    if not scene.share_seeds:
        return side
    runs = tuple(
        replace(sample, curve=tuple((GRID * step, step / value) for step in range(1, round(value / GRID) + 1)))
        for sample, value in zip(side.samples, epochs, strict=True)
    )
    return replace(side, repetitions=runs)


def shares(comparisons: Iterable[Comparison]) -> Mapping[str, Mapping[str, float]]:
    """By factor the share of each verdict; of 'any', in how many comparisons some factor is faster or slower."""
    found: dict[str, Counter[str]] = {}
    number = 0
    for comparison in comparisons:
        number += 1
        for factor in comparison.factors:
            found.setdefault(factor.name, Counter())[factor.verdict] += 1
        verdicts = {factor.verdict for factor in comparison.factors}
        found.setdefault("any", Counter())["called" if verdicts & {"faster", "slower"} else "not called"] += 1
        found.setdefault("regression", Counter())["yes" if comparison.is_regression else "no"] += 1
    return {name: {verdict: count / number for verdict, count in counts.items()} for name, counts in found.items()}
