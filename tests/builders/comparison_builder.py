"""Sides of comparisons with known values, and simulated ones as noisy as published DLRM results are."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reports.results.result import Result, Run, System, factor_values
from reports.statistics.ratios import Difference, decide, holm_levels, welch_difference
from rules.scoring.results import RunResult

Floats = NDArray[np.float64]

GRID = 0.05
TRAIN_SAMPLES = 1_000_000


def make_side(
    label: str,
    epochs: Sequence[float],
    rates: Sequence[float | None],
    overheads: Sequence[float] | None = None,
    *,
    seeds: Sequence[int | None] | None = None,
    num_failed: int = 0,
    starts: Sequence[float | None] | None = None,
    **changes: Any,
) -> Result:
    """Runs that converged after `epochs` at `rates` samples per second; evaluations lie GRID epochs apart.

    Without `starts` a record says that all such sides took turns, unless `turns` is None: drift is then no question.
    """
    overheads = [1.1] * len(epochs) if overheads is None else overheads
    seeds = [None] * len(epochs) if seeds is None else seeds
    starts = [None] * len(epochs) if starts is None else starts
    runs = []
    for index, (epoch, rate, overhead, seed, start) in enumerate(
        zip(epochs, rates, overheads, seeds, starts, strict=True)
    ):
        train_s = None if rate is None else epoch * TRAIN_SAMPLES / rate
        runs.append(
            Run(
                log=make_run(label, index),
                seed=seed,
                values=factor_values(
                    100.0 * epoch if train_s is None else train_s * overhead, train_s, epoch * TRAIN_SAMPLES
                ),
                steps={
                    "time_to_train": GRID / epoch,
                    "samples_to_converge": GRID / epoch,
                    "throughput": 1e-5,
                    "overhead": 1e-5,
                },
                started_ms=start,
            )
        )
    for index in range(len(runs), len(runs) + num_failed):
        runs.append(Run(log=make_run(label, index), seed=None, values={}, fate="failed"))
    return Result(
        **{
            "label": label,
            "source": "logs",
            "status": "own",
            "benchmark": "dlrm_tiny",
            "repetitions": tuple(runs),
            "system": System(name="box"),
            "turns": "a sweep",
            **changes,
        }
    )


def with_logs(side: Result, logs: Sequence[RunResult]) -> Result:
    """The side with other logs of its runs."""
    pairs = zip(side.runs, logs, strict=True)
    return replace(side, repetitions=tuple(replace(run, log=log) for run, log in pairs))


def make_run(label: str, index: int, **changes: Any) -> RunResult:
    """What one log says, as far as comparability goes by it."""
    values: dict[str, Any] = dict.fromkeys(RunResult.__dataclass_fields__)
    values |= {"path": f"{label}/result_{index}.txt", "log_sha256": f"{label} {index}", "benchmark": "dlrm_tiny"}
    values |= {"division": "closed", "quality_target": 0.7, "converged": True, "evaluations": ()}
    return RunResult(**{**values, **changes})


def draw_logs(
    generator: np.random.Generator,
    num_sets: int,
    num_runs: int,
    *,
    mean_epochs: float = 0.7,
    step_time: float = 1.0,
    spread: Floats | None = None,
) -> tuple[Floats, Floats, Floats]:
    """Logs of epochs, throughput and overhead, [num_sets, num_runs] each.

    Convergence varies by 4 % and ends on the grid of 5 % of an epoch, throughput varies by 0.3 %, overhead by 0.1 %;
    `step_time` stretches each step. `spread` are the normal draws behind convergence, to share them between sets.
    """
    noise = generator.standard_normal((num_sets, num_runs)) if spread is None else spread
    epochs = np.ceil(mean_epochs * np.exp(0.04 * noise) / GRID - 1e-9) * GRID
    rates = -np.log(step_time) + 0.003 * generator.standard_normal((num_sets, num_runs))
    overheads = np.log1p(0.12 / step_time) + 0.001 * generator.standard_normal((num_sets, num_runs))
    return np.log(epochs), rates, overheads


def time_differences(base: tuple[Floats, Floats, Floats], new: tuple[Floats, Floats, Floats]) -> list[Difference]:
    """Welch's differences of log time of all sets at once: time to train, convergence, throughput, overhead."""
    pairs = [(base[0], new[0], GRID / 0.7), (-base[1], -new[1], 1e-5), (base[2], new[2], 1e-5)]
    whole = (base[0] - base[1] + base[2], new[0] - new[1] + new[2], GRID / 0.7)
    return [welch_difference(one, other, step=step) for one, other, step in (whole, *pairs)]


def simulated_verdicts(
    base: tuple[Floats, Floats, Floats], new: tuple[Floats, Floats, Floats], min_effect: float = 0.03
) -> dict[str, NDArray[np.str_]]:
    """The verdicts of every simulated comparison, by factor."""
    differences = time_differences(base, new)
    levels = holm_levels(np.stack([one.p_value() for one in differences], axis=-1), 0.05)
    margin = float(np.log1p(min_effect))
    within = holm_levels(np.stack([one.within_p(margin) for one in differences], axis=-1), 0.05)
    names = ("time_to_train", "samples_to_converge", "throughput", "overhead")
    return {
        name: decide(one, levels[:, index], margin, within[:, index])
        for index, (name, one) in enumerate(zip(names, differences, strict=True))
    }
