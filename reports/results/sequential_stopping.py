"""Puts into words how a run set ended that was to be stopped at a precise mean time: its mean became precise, it
reached the largest allowed number of runs, or a run had no time."""

import math
from dataclasses import dataclass

from reports.results.resolution import time_step
from reports.statistics.sequential_stopping import narrow_after
from reports.text.formatting import percent, plural
from rules.records.run_set import UntilRecord
from rules.scoring.results import BenchmarkResult


@dataclass(frozen=True, kw_only=True, slots=True)
class StoppingRecord:
    """History of a run set to which runs were added until its mean time to train was known to within `width`, a
    fraction of the mean. `num_runs` is the number of runs that the set has.

    `after` is the number of runs after which the mean was known that precisely; None if it never was.
    """

    width: float
    num_runs: int
    after: int | None


def stopping_of(result: BenchmarkResult, until: UntilRecord | None) -> StoppingRecord | None:
    """Return how the growth of a run set ended; None for a set whose number of runs was given."""
    if until is None:
        return None
    times_s = [run.time_to_train_s if run.converged and run.time_to_train_s else math.inf for run in result.runs]
    after = narrow_after(times_s, [time_step(run) for run in result.runs], until.width, until.min_runs)
    return StoppingRecord(width=until.width, num_runs=len(result.runs), after=after)


def stopping_words(growth: StoppingRecord) -> str:
    """Return the predicate of a sentence on how a set's growth ended: 'grew until its mean time to train was known to
    3.0 %'."""
    known = f"mean time to train was known to {percent(growth.width)}"
    if growth.after is None:
        return f"ended with {plural(growth.num_runs, 'run')}, before its {known}"
    if growth.after < growth.num_runs:
        return f"holds the {plural(growth.num_runs, 'run')} that were asked for; its {known} after {growth.after}"
    return f"grew until its {known}"
