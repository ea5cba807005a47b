"""`codesign`: hardware of a PE array and a benchmark's tilings on it, searched apart and together: modelled."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import inf, prod
from typing import Literal

import numpy as np
from msgspec.structs import asdict

from harness.config.run_config import RunConfig
from harness.extensions.codesign.accelerator import LOOKUPS, ORDERS, Nest, PEArray, Point, list_nests, model_nest
from harness.foundation.optuna import quiet_optuna
from harness.foundation.study import Columns, make_study, make_table
from reference_models.process.errors import ConfigError
from reports.text.formatting import duration, percent, plural
from rules.records.study import Cell, Parameter, StudyCheck, StudyRecord

Mode = Literal["separate", "joint"]
Objective = Literal["latency_s", "energy_j"]
MAX_LISTED = 2000
"""Points of a space that is tried whole."""
POPULATION = 20
"""Trials of a generation of NSGA-II, the first of which is the start."""
PUBLISHED_GAIN, PUBLISHED_SAVING = "1.25x-1.44x, other kernels", "-18 %, -40 %, other networks"
"""Abstracts: HASCO (ISCA 2021), joint over separate design; Shi et al. (2020), energy-delay against by hand."""
TOLERANCE = 1e-5
_MAX_MACS, _MAX_BLOCKS = 1 << 31, 1 << 15
"""Multiply-adds and blocks of the largest product that is executed."""
_REMARK = (
    "Modelled: a training step's products and its forward pass's lookups, one after another, each in the tiling and "
    "loop order within the largest tile that is best in the first objective; no other work, no leakage. separate "
    "chooses hardware for the tile by hand and then the tile; joint begins with what that found. Up to "
    f"{MAX_LISTED:,} points are all tried, of more a part by NSGA-II."
)
_DESIGNS: Columns = (
    ("Mode", None, "given"),
    ("PEs", None, "computed"),
    ("Scratchpad", "B", "computed"),
    ("Largest tile", None, "computed"),
    ("Latency", "s", "modelled"),
    ("Energy", "J", "modelled"),
    ("Energy-delay", "J s", "modelled"),
)
_TILINGS: Columns = (
    ("Product", None, "given"),
    ("m x k x n", None, "given"),
    ("Tile", None, "computed"),
    ("Loops", None, "computed"),
    ("Cycles", None, "modelled"),
    ("DRAM traffic", "B", "modelled"),
    ("Latency", "s", "modelled"),
    ("Error in blocks", None, "measured"),
)


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


def find_tiling(nest: Nest, point: Point, array: PEArray, objective: Objective) -> tuple[int, float, float, int]:
    """Return a nest's best tiling, of equal ones the best in the other objective: index, seconds, joules, cycles."""
    cycles, *costs = model_nest(nest, point, array)
    index = int(np.lexsort(costs if objective == "energy_j" else costs[::-1])[0])
    return index, float(costs[0][index]), float(costs[1][index]), int(cycles[index])


def evaluate(nests: Sequence[Nest], point: Point, array: PEArray, objectives: Sequence[Objective]) -> Trial:
    """Model a point, each nest in the tiling that is best in the first of the objectives."""
    if any(violations := array.find_violations(point)):
        return Trial(point, violations)
    found = [find_tiling(nest, point, array, objectives[0]) for nest in nests]
    return Trial(point, violations, sum(each[1] for each in found), sum(each[2] for each in found))


def search(
    choices: Mapping[str, Sequence[int]],
    try_point: Callable[[Point], Trial],
    start: Sequence[Point],
    objectives: Sequence[Objective],
    num_trials: int,
    seed: int,
) -> list[Trial]:
    """Try all points where they are few, else up to `num_trials` of NSGA-II, those of `start` first, none twice."""
    if prod(map(len, choices.values())) <= MAX_LISTED:
        return [try_point(dict(zip(choices, each, strict=True))) for each in product(*choices.values())]
    with quiet_optuna() as optuna:
        values = {name: optuna.distributions.CategoricalDistribution(each) for name, each in choices.items()}
        sampler = optuna.samplers.NSGAIISampler(population_size=POPULATION, seed=seed)
        study = optuna.create_study(directions=["minimize"] * len(objectives), sampler=sampler)
    for point in start:
        study.enqueue_trial(dict(point))
    found = dict[tuple[int, ...], Trial]()
    for _ in range(4 * num_trials):
        asked = study.ask(dict(values))
        trial = try_point({name: asked.params[name] for name in choices})
        for name, violation in zip(("area", "scratchpad", "shape"), trial.violations, strict=True):
            asked.set_constraint(name, violation)
        study.tell(asked, trial.values(objectives))
        found[tuple(trial.point.values())] = trial
        if len(found) == num_trials:
            break
    return [*found.values()]


def find_pareto(trials: Sequence[Trial], objectives: Sequence[Objective]) -> list[Trial]:
    """Return the valid trials than which none is better in one of up to two objectives and as good in the other."""
    least, found = inf, list[Trial]()
    for trial in sorted(trials, key=lambda trial: trial.values(objectives)):
        if (last := trial.values(objectives)[-1]) < least:
            least = last
            found.append(trial)
    return found


def execute_tiling(extents: Sequence[int], tile: Sequence[int], order: str) -> float:
    """Return how far a product in blocks, in torch and fp64, is from the whole: a share of its largest value."""
    import torch

    generator, (m, k, n) = torch.Generator().manual_seed(0), extents
    left, right = (torch.randn(*each, generator=generator, dtype=torch.float64) for each in ((m, k), (k, n)))
    whole = left @ right
    made = torch.zeros_like(whole)
    ends, sizes = (dict(zip("mkn", each, strict=True)) for each in (extents, tile))
    for starts in product(*(range(0, ends[loop], sizes[loop]) for loop in order)):
        at = {loop: slice(start, start + sizes[loop]) for loop, start in zip(order, starts, strict=True)}
        made[at["m"], at["n"]] += left[at["m"], at["k"]] @ right[at["k"], at["n"]]
    return float((made - whole).abs().max() / whole.abs().max())


def space_study(
    config: RunConfig,
    array: PEArray,
    modes: Sequence[Mode],
    objectives: Sequence[Objective],
    num_trials: int,
    seed: int,
) -> StudyRecord:
    """Search hardware and then the largest tile (`separate`), and both at once from there (`joint`).

    Raises ConfigError for a benchmark without products and lookups, HarnessError where optuna is missing.
    """
    workload, space = config.workload, asdict(array.space)
    step = workload.model_spec.costs.step(workload.model, workload.data.mapped, workload.train.global_batch_size)
    if not (nests := list_nests(step, [max(space[f"tile_{loop}"]) for loop in "mkn"])):
        raise ConfigError(f"{config.benchmark.name}: has neither matrix products nor lookups for a PE array.")

    def try_point(point: Point) -> Trial:
        return evaluate(nests, point, array, objectives)

    def run(fixed: Mapping[str, int], start: Sequence[Trial]) -> list[Trial]:
        choices = {name: (fixed[name],) if name in fixed else values for name, values in space.items()}
        return search(choices, try_point, [trial.point for trial in start], objectives, num_trials, seed)

    by_hand = try_point({name: values[0] for name, values in space.items()})
    hardware = run({name: by_hand.point[name] for name in ("tile_m", "tile_k", "tile_n")}, [by_hand])
    chosen = min([by_hand, *hardware], key=lambda trial: prod(trial.values(objectives)))
    tiles = run({name: chosen.point[name] for name in ("rows", "columns", "scratchpad_bytes")}, [chosen])
    best = {"separate": find_pareto([by_hand, *hardware, *tiles], objectives)}
    trials = {"separate": [*hardware, *tiles]}
    if "joint" in modes:
        trials["joint"] = run({}, [by_hand, *best["separate"]])
        best["joint"] = find_pareto([by_hand, *best["separate"], *trials["joint"]], objectives)
    tilings, error = _show_tilings(nests, best[modes[-1]][0].point, array, objectives)
    designs = [("by hand", by_hand), *((mode, trial) for mode in modes for trial in best[mode])]
    return make_study(
        "codesign", f"{config.benchmark.name} on {array.title}: {_answer(best, modes, by_hand, objectives)}",
        config.benchmark, seed=seed,
        findings=[*(_say_gain(mode, trials, best, by_hand, objectives) for mode in modes), _REMARK],
        tables=[make_table("By hand, and designs that no other of their mode is better than", _DESIGNS,
                           [_show_design(*design) for design in designs]),
                make_table(f"Tilings of the first design of {modes[-1]}", _TILINGS, tilings)],
        parameters=[Parameter(name="array", value=array.title, unit=None, source="file", note="title"),
                    *(Parameter(name=f"{each.of} at {each.size:g}", value=each.value, unit=None, source="file",
                                note=each.source) for each in array.numbers)],
        checks=[StudyCheck(name="largest error of a product in blocks, as a share of its largest value", expected=0.0,
                           found=error, is_passed=error <= TOLERANCE)],
    )  # fmt: skip


def _answer(
    best: Mapping[str, Sequence[Trial]], modes: Sequence[Mode], by_hand: Trial, objectives: Sequence[Objective]
) -> str:
    """Say in one line which mode found the best design in the first objective, what that saves, and at what price in
    the other."""
    first = objectives[0]
    mode = min(modes, key=lambda each: min(trial.values([first]) for trial in best[each]))
    least = min(best[mode], key=lambda trial: trial.values([first]))
    (found,), (before,) = least.values([first]), by_hand.values([first])
    words = duration(found) if first == "latency_s" else f"{found:.3g} J"
    how = {"separate": "hardware first, then tiles", "joint": "hardware and tiles together"}[mode]
    names: dict[Objective, str] = {"latency_s": "time", "energy_j": "energy"}
    others = [
        _say_change(names[each], *least.values([each]), *by_hand.values([each]))
        for each in objectives
        if each != first
    ]
    price = f", with {' and '.join(others)}" if others else ""
    return f"searched {how}, a step takes {words}, {percent(1 - found / before)} less than by hand{price}, modelled"


def _say_gain(
    mode: Mode,
    of: Mapping[str, Sequence[Trial]],
    best: Mapping[str, Sequence[Trial]],
    by_hand: Trial,
    objectives: Sequence[Objective],
) -> str:
    """Say what a mode found: the design that is best in the first objective, then that of the least energy-delay."""
    trials, parts = of[mode], list[str]()
    first = _find_best(best[mode], objectives)
    if "latency_s" in objectives:
        parts.append(f"a step takes {duration(first.latency_s)} at best")
        if mode == "joint":
            before = f"separate, from whose {plural(len(of['separate']), 'trial')} it begins"
            gain = _find_best(best["separate"], objectives).latency_s / first.latency_s
            than = "no faster than" if gain < 1.0005 else f"{gain:.3f} times as fast as"
            parts.append(f"{than} {before} (published: {PUBLISHED_GAIN})")
    else:
        parts.append(f"a step takes {first.energy_j:.3g} J at best")
    said = ", ".join(parts)
    if "energy_j" in objectives:
        least = min(best[mode], key=lambda trial: trial.energy_delay)
        changes = [_say_change("energy-delay", first.energy_delay, by_hand.energy_delay)]
        if "latency_s" in objectives:
            changes.insert(0, _say_change("energy", first.energy_j, by_hand.energy_j))
        said += f", with {' and '.join(changes)} than by hand"
        if least is not first:
            change = _say_change("energy-delay", least.energy_delay, by_hand.energy_delay)
            said += f". Another, of {duration(least.latency_s)}, has {change} than by hand, the least"
        said += f" (published: {PUBLISHED_SAVING})"
    later = [any(trial.violations) for trial in trials[POPULATION:]]
    invalid = f", {percent(sum(later) / len(later))} of those after the first {POPULATION} invalid" if later else ""
    return f"{mode}, modelled: {said}; {plural(len(trials), 'trial')}{invalid}."


def _find_best(trials: Sequence[Trial], objectives: Sequence[Objective]) -> Trial:
    """Return the trial that is best in latency where that is an objective, else in energy."""
    first: Objective = "latency_s" if "latency_s" in objectives else "energy_j"
    return min(trials, key=lambda trial: trial.values([first]))


def _say_change(name: str, found: float, before: float) -> str:
    """Say by what share a value is above or below another: '4.6 % more energy'."""
    change = found / before - 1
    return f"{percent(abs(change))} {'less' if change < 0 else 'more'} {name}"


def _show_design(mode: str, trial: Trial) -> tuple[Cell, ...]:
    rows, columns, size, *tile = trial.point.values()
    costs = (trial.latency_s, trial.energy_j, trial.energy_delay)
    return (mode, f"{rows} x {columns}", size, " x ".join(map(str, tile)), *costs)


def _show_tilings(
    nests: Sequence[Nest], point: Point, array: PEArray, objectives: Sequence[Objective]
) -> tuple[list[tuple[Cell, ...]], float]:
    """List each nest's tiling, and the largest error of those products that are small enough to be executed."""
    rows, errors = list[tuple[Cell, ...]](), [0.0]
    for nest in nests:
        index, latency_s, _, cycles = find_tiling(nest, point, array, objectives[0])
        tile, order, error = [int(side) for side in nest.tiles[:, index]], ORDERS[nest.orders[index]], None
        if nest.name != LOOKUPS and prod(nest.extents) <= min(_MAX_MACS, _MAX_BLOCKS * prod(tile)):
            errors.append(error := execute_tiling(nest.extents, tile, order))
        shown = (" x ".join(map(str, each)) for each in (nest.extents, tile))
        rows.append((nest.name, *shown, order, cycles, int(nest.dram_bytes[index]), latency_s, error))
    return rows, max(errors)
