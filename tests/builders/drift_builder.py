"""Simulated comparisons on a system that drifts, judged by the product's own functions."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from comparison_builder import GRID, make_side
from numpy.typing import NDArray

from harness.experiment.orders import OrderStep, turns
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


def stepping(size: float, within: float = 0.003) -> Noise:
    """Once, at some run, faster or slower for good."""

    def draw(generator: np.random.Generator, sets: int, runs: int) -> Floats:
        found = within * generator.standard_normal(sets * runs)
        found[generator.integers(sets * runs) :] += size * generator.choice((-1, 1))
        return found.reshape(sets, runs)

    return draw


def neighbour(share: float, within: float = 0.003) -> Noise:
    """Slower by `share` while another user is there, who comes before one run in ten and stays for five."""

    def draw(generator: np.random.Generator, sets: int, runs: int) -> Floats:
        found, is_there = within * generator.standard_normal(sets * runs), generator.random() < 1 / 3
        for index in range(sets * runs):
            found[index] += np.log1p(-share) * is_there
            is_there = generator.random() < (0.8 if is_there else 0.1)
        return found.reshape(sets, runs)

    return draw


NOISES: Mapping[str, Noise] = {
    "independent 0.3 %": independent(0.003),
    "independent 3 %": independent(0.03),
    "independent 5 %": independent(0.05),
    "offsets 2 %": offsets(0.02),
    "offsets 5 %": offsets(0.05),
    "offsets 8 %": offsets(0.08),
    "trend 2 %": trend(0.02),
    "trend 5 %": trend(0.05),
    "trend 10 %": trend(0.10),
    "wandering 2 %": wandering(0.02),
    "wandering 5 %": wandering(0.05),
    "a step of 10 %": stepping(0.10),
    "a neighbour of 15 %": neighbour(0.15),
    "a neighbour of 30 %": neighbour(0.30),
}
"""What shared systems were seen to do."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scene:
    """How two sets are measured: `step_time` stretches each step of new, `num_repeats` more sets of base's
    configuration come before and `num_after` behind, and runs are made in turns or one set after the other. From new
    on the system is faster by `jump`. Shared seeds have shared curves.
    """

    noise: Noise = NOISES["independent 0.3 %"]
    num_runs: int = 5
    share_seeds: bool = False
    in_turns: bool = False
    num_repeats: int = 0
    num_after: int = 0
    jump: float = 0.0
    step_time: float = 1.0
    min_effect: float = 0.03


def simulate(scene: Scene, num_pairs: int, seed: int, *, is_described: bool = True) -> Iterator[Comparison]:
    """Compare as many pairs of sets as asked for."""
    generator, epochs, runs, at = np.random.default_rng(seed), shipped_epochs(), scene.num_runs, scene.num_repeats
    for _ in range(num_pairs):
        speeds = scene.noise(generator, at + 2 + scene.num_after, runs)
        speeds[at + 1 :] += scene.jump
        starts = np.arange(speeds.size).reshape(speeds.shape)
        if scene.in_turns:  # A B, B A, A B ...
            places = np.arange(2 * runs).reshape(runs, 2)
            places[1::2] = places[1::2, ::-1]
            speeds[at : at + 2] = speeds[at : at + 2].reshape(-1)[places.T]
            starts[at : at + 2] = at * runs + places.T
        luck = generator.choice(epochs, speeds.shape)
        if scene.share_seeds:
            luck[at + 1] = luck[at]
        sides = [
            _side(
                generator,
                f"set {index}",
                luck[index],
                speeds[index],
                scene,
                starts[index],
                scene.step_time if index == at + 1 else 1.0,
            )
            for index in range(len(speeds))
        ]
        new = sides.pop(at + 1)
        repeats = Repeats(groups=(tuple(sides),), is_given=True) if len(sides) > 1 else NO_REPEATS
        yield compare_results(
            sides[at],
            [new],
            min_effect=scene.min_effect,
            context=GroupContext(repeats=repeats),
            is_described=is_described,
        )[0]


def simulate_sweeps(
    noise: Noise, num_equal: int, num_sweeps: int, seed: int, quantities: tuple[str, ...] = ("throughput",)
) -> Iterator[list[Result]]:
    """Measure as many sweeps as asked for, each of equal configurations that take turns in five rounds."""
    generator, epochs, scene = np.random.default_rng(seed), shipped_epochs(), Scene(noise=noise, share_seeds=True)
    for _ in range(num_sweeps):
        order = {step: place for place, step in enumerate(turns(range(num_equal), 5))}
        turns_of = np.array(
            [[order[OrderStep(index, repetition)] for index in range(num_equal)] for repetition in range(5)]
        )
        speeds, luck = noise(generator, 5, num_equal).reshape(-1), generator.choice(epochs, 5)
        yield [
            replace(
                _side(generator, f"c{index}", luck, speeds[turns_of[:, index]], scene, turns_of[:, index], 1.0),
                quantities=quantities,
            )
            for index in range(num_equal)
        ]


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
