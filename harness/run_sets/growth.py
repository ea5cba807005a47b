"""Sets that grow: to a number that is asked for (`resume --runs`), or until they are precise (`run --until`)."""

from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from harness.config.seeds import derive_seeds, reserved_seeds
from harness.foundation.errors import HarnessError
from harness.foundation.files import read_record, write_record
from harness.measure.kinds import find_kind
from harness.run_sets.folder import RUN_SET_FILE, RunSet, hold_lock, locked, open_run_set
from harness.run_sets.pair import PAIR_FILE, is_pair
from harness.run_sets.runner import complete_set
from harness.run_sets.sweep import SWEEP_FILE, is_sweep
from reports.facts.grid import time_step
from reports.statistics.growth import is_narrow
from reports.statistics.intervals import MIN_RUNS
from rules.benchmarks.loader import Benchmark, load_benchmark
from rules.logs.log import read_log
from rules.records.kinds import IN_PROCESSES
from rules.records.pair import SIDES, PairRecord
from rules.records.run_set import RunSetRecord, UntilRecord
from rules.records.sweep import SweepRecord
from rules.scoring.results import read_run_result

MAX_RUNS = 30
"""How far a set grows where nobody says."""


def make_until(benchmark: Benchmark, width: float, min_runs: int, max_runs: int | None) -> UntilRecord:
    """Make the rule by which a new set grows. Raises HarnessError (exit 2) where it cannot grow by it."""
    if benchmark.status == "official":
        raise HarnessError(
            f"{benchmark.name} is an official benchmark: its score is over exactly {benchmark.score.num_runs} runs, "
            "and its sets do not grow. Leave --until out, or make a benchmark of your own of it, with --name."
        )
    if min_runs < MIN_RUNS:
        raise HarnessError(
            f"-n is {min_runs}, but --until looks at the interval of at least {MIN_RUNS} runs. Leave -n out, or give "
            "more."
        )
    most = max(MAX_RUNS, min_runs) if max_runs is None else max_runs
    if most < min_runs:
        raise HarnessError(f"--max-runs is {most}, but the set begins with {min_runs} runs. Give at least that many.")
    return UntilRecord(width=width, min_runs=min_runs, max_runs=most)


def grow(folder: Path, num_runs: int) -> None:
    """Have the set, or all sets of the sweep or the pair, in `folder` hold `num_runs` in all.

    Raises HarnessError (exit 2).
    """
    if not (is_sweep(folder) or is_pair(folder)):
        _grow_set(folder, num_runs, is_asked=True)
        return
    with hold_lock(folder / "lock", folder):
        whole: SweepRecord | PairRecord
        if is_sweep(folder):
            path, whole = folder / SWEEP_FILE, read_record(folder / SWEEP_FILE, SweepRecord)
            folders = [folder / entry.folder for entry in whole.configurations if entry.folder is not None]
        else:
            path, whole = folder / PAIR_FILE, read_record(folder / PAIR_FILE, PairRecord)
            folders = [folder / side for side in SIDES]
        for part in folders:
            refuse_growth(part, open_run_set(part)[1], num_runs)
        for part in folders:
            _grow_set(part, num_runs, is_asked=True)
        write_record(path, replace(whole, num_runs=num_runs))


def refuse_growth(folder: Path, record: RunSetRecord, num_runs: int) -> None:
    """Raise HarnessError (exit 2) where a set may not hold so many runs."""
    if num_runs < record.num_runs:
        raise HarnessError(
            f"{folder}: holds {record.num_runs} runs, and --runs is {num_runs}: a set does not shrink, since leaving "
            f"runs out would be choosing among them. Give --runs {record.num_runs} or more."
        )
    kind = find_kind(record.kind)
    if not kind.is_scored and kind.name not in IN_PROCESSES:
        raise HarnessError(f"{folder}: holds a {kind.name}, which is of one process. Nothing can be added to it.")
    if kind.is_scored and record.benchmark.status == "official":
        needed = load_benchmark(folder / "extra" / "definition.toml").score.num_runs
        if num_runs > needed:
            raise HarnessError(
                f"{folder}: {record.benchmark.name} is an official benchmark, and its score is over exactly {needed} "
                f"runs. Give --runs {needed} at most; start another set for more."
            )


def _grow_set(folder: Path, num_runs: int, *, is_asked: bool = False) -> None:
    """Have a set hold `num_runs`. Where a person asks for them, a set that grows until it is precise ends there."""
    run_set, _ = open_run_set(folder)
    with locked(run_set):
        record = open_run_set(folder)[1]
        refuse_growth(folder, record, num_runs)
        reserved = reserved_seeds(record.benchmark.name) | set(record.seeds)
        more = derive_seeds(record.base_seed, num_runs, reserved)
        seeds = (*record.seeds, *more)[:num_runs]
        until = record.until if record.until is None or not is_asked else replace(record.until, max_runs=num_runs)
        write_record(run_set.extra / RUN_SET_FILE, replace(record, num_runs=num_runs, seeds=seeds, until=until))


def complete_and_grow(folder: Path, *, quiet: bool = False, on_growth: Callable[[int], None]) -> RunSet:
    """Run what is missing; then, of a set that grows until it is precise, run by run until it is, or at its end.

    It ends, too, with a run that did not converge.

    `on_growth` is called with the number of runs that the set is about to have. Raises HarnessError when an attempt
    is interrupted.
    """
    run_set = complete_set(folder, quiet=quiet)
    while (num_runs := _next_length(run_set, open_run_set(folder)[1])) is not None:
        on_growth(num_runs)
        _grow_set(folder, num_runs)
        complete_set(folder, quiet=quiet)
    return run_set


def _next_length(run_set: RunSet, record: RunSetRecord) -> int | None:
    until = record.until
    if until is None or record.num_runs >= until.max_runs:
        return None
    benchmark = load_benchmark(run_set.definition)
    runs = [read_run_result(read_log(run_set.result(index)), benchmark) for index in range(record.num_runs)]
    times_s = [run.time_to_train_s for run in runs if run.converged and run.time_to_train_s]
    if len(times_s) < len(runs):
        return None  # a run without a time leaves a mean that no further run makes known
    if is_narrow(times_s, [time_step(run) for run in runs], until.width, until.min_runs):
        return None
    return record.num_runs + 1
