"""Decide by stop rules, from the measurements so far, whether an experiment ends or gets more repetitions or
configurations."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from harness.foundation.errors import ExitCode, HarnessError
from harness.run_sets.folder import RunSet
from reports.results.resolution import time_step
from reports.statistics.intervals import MIN_RUNS
from reports.statistics.sequential_stopping import narrow_after
from rules.benchmarks.loader import Benchmark, load_benchmark
from rules.extensions import find_places, load_place
from rules.logs.log import read_log
from rules.records.experiment import ExperimentRecord, StopRecord
from rules.records.run_set import UntilRecord
from rules.scoring.results import read_run_result

MAX_RUNS = 30
"""Default limit on the number of runs of a run set that grows until its mean time to train is precise."""


@dataclass(frozen=True, kw_only=True, slots=True)
class State:
    """Experiment whose planned repetitions have all been measured, as it is given to a stop rule."""

    folder: Path
    record: ExperimentRecord
    sets: tuple[RunSet, ...]
    """Run sets of all configurations that have not failed."""


class StopRule(Protocol):
    """Stop rule, which decides from the measurements whether an experiment gets more repetitions or configurations.
    Its parameters, numbers by name, come from the experiment's record."""

    def __init__(self, values: Mapping[str, float]) -> None: ...

    def extend(self, state: State) -> int | Mapping[str, str] | None:
        """Return how the experiment is extended. A whole number is the new number of repetitions of each
        configuration. A mapping is one more configuration: its values by key, as on the command line. None ends the
        experiment.

        The caller writes the extension to disk before its repetitions are made.
        """


class Until:
    """Stop rule that adds runs one by one until the confidence interval of every mean time to train is narrow enough,
    or there are max_runs runs.

    If a run does not converge, no more runs are added: the time to train of this run is unknown, so the mean stays
    unknown whatever further runs give.
    """

    def __init__(self, values: Mapping[str, float]) -> None:
        self._width, self._min_runs, self._max_runs = (values[key] for key in ("width", "min_runs", "max_runs"))

    def extend(self, state: State) -> int | None:
        num_runs = state.record.num_runs
        if num_runs >= self._max_runs or all(self._is_settled(run_set, num_runs) for run_set in state.sets):
            return None
        return num_runs + 1

    def _is_settled(self, run_set: RunSet, num_runs: int) -> bool:
        benchmark = load_benchmark(run_set.definition)
        runs = [read_run_result(read_log(run_set.result(index)), benchmark) for index in range(num_runs)]
        times_s = [run.time_to_train_s for run in runs if run.converged and run.time_to_train_s]
        steps = [time_step(run) for run in runs]
        has_failed = len(times_s) < len(runs)
        return has_failed or narrow_after(times_s, steps, self._width, int(self._min_runs)) is not None


STOP_RULES: Mapping[str, type[StopRule]] = {
    "until": Until,
}
"""Stop rules of the core by their name in an experiment's record; extensions add rules of their own."""


def find_stop_rule(record: StopRecord | None) -> StopRule | None:
    """Return the stop rule that an experiment's record names, None if it names none. Raises HarnessError (exit 8) for
    an unknown rule or a missing value."""
    if record is None:
        return None
    places = find_places("stop_rules")
    if record.rule not in STOP_RULES and record.rule not in places:
        raise HarnessError(
            f"stop rule {record.rule!r}: not known to this version, which has {', '.join([*STOP_RULES, *places])}.",
            ExitCode.INPUT,
        )
    rule: type[StopRule] = STOP_RULES.get(record.rule) or load_place(places[record.rule])
    try:
        return rule(record.values)
    except KeyError as missing:
        given = ", ".join(record.values) or "none"
        raise HarnessError(
            f"stop rule {record.rule!r}: expected a value {missing}, found {given}.", ExitCode.INPUT
        ) from None


def make_until(benchmark: Benchmark, width: float, min_runs: int, max_runs: int | None) -> UntilRecord:
    """Return the stop rule of a new run set for --until (add runs until the mean time to train is precise). Raises
    HarnessError (exit 2) for an official benchmark, for fewer first runs than an interval needs, and for a limit on
    the number of runs below the number of first runs."""
    if benchmark.status == "official":
        raise HarnessError(
            f"{benchmark.name} is an official benchmark: its score is over exactly {benchmark.score.num_runs} runs, "
            "and its sets do not grow. Leave --until out, or make a benchmark of your own of it, with --name."
        )
    if min_runs < MIN_RUNS:
        raise HarnessError(
            f"-n is {min_runs}, but --until needs at least {MIN_RUNS} runs for an interval. Leave -n out, or give "
            "more."
        )
    most = max(MAX_RUNS, min_runs) if max_runs is None else max_runs
    if most < min_runs:
        raise HarnessError(f"--max-runs is {most}, but the set begins with {min_runs} runs. Give at least that many.")
    return UntilRecord(width=width, min_runs=min_runs, max_runs=most)
