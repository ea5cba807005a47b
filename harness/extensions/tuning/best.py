"""Measure a search's best trial again, alternately with the default configuration or, where the default cannot run,
alone; and write the search's study."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

from msgspec.structs import replace as change

from harness.config.axes import overrides_of
from harness.config.catalog import MODEL_KEY
from harness.config.run_config import Override
from harness.experiment.context import Context
from harness.experiment.create import create_group
from harness.experiment.expand import expand
from harness.experiment.finish import FinishedStudy, exit_code_of_sides, finish_sides
from harness.experiment.loop import complete
from harness.experiment.prepare import prepare
from harness.experiment.request import Request
from harness.experiment.sides import read_source
from harness.experiment.store import parts_of, read
from harness.extensions.tuning.making import AGAIN, create_again
from harness.extensions.tuning.parallel import shared_threads
from harness.extensions.tuning.records import SearchRecord, search_of
from harness.extensions.tuning.space import make_point
from harness.extensions.tuning.study import Again, make_search_study
from harness.extensions.tuning.trials import (
    Trial,
    best_of,
    count_missed,
    measured_columns,
    rank,
    read_result,
    read_trials,
)
from harness.foundation.errors import ExitCode, first_line
from harness.foundation.files import write_record
from harness.run_sets.commands import split_command
from harness.run_sets.folder import RUN_SET_FILE, open_run_set
from harness.run_sets.making import making_of
from reference_models.process.atomic_write import remove
from reference_models.registry import outside_names
from reports.comparison.comparison import compare_results
from reports.page.content import ReportContent, gather_everything
from reports.page.report import write_page
from reports.results.result import Result
from reports.statistics.intervals import MIN_RUNS
from rules.benchmarks.seeds import derive_seeds, reserved_seeds
from rules.errors import InputError
from rules.records.columns import TIME_TO_TRAIN, column_value
from rules.records.experiment import EXPERIMENT_FILE, NEW, ExperimentRecord
from rules.records.study import STUDY_FILE

_MOST_AGAIN = 2
"""Maximum number of trials that are measured again: the best one, and the second best if the best one misses a
constraint when it is measured again."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _FinishedSearch:
    """A search of settings whose trials have all ended, measured or failed, read from its folder."""

    folder: Path
    record: ExperimentRecord
    asked: SearchRecord
    trials: tuple[Trial, ...]

    @classmethod
    def read(cls, folder: Path) -> "_FinishedSearch":
        record = read(folder)
        return cls(folder=folder, record=record, asked=search_of(record), trials=read_trials(folder, record))

    @property
    def candidates(self) -> list[Trial]:
        """Return the trials that may be measured again, the best first. Each later one is measured only if all before
        it missed a constraint when measured again."""
        return rank(self.asked, self.trials[1:])[:_MOST_AGAIN]

    @property
    def is_alone(self) -> bool:
        """Return whether the default settings measured nothing, so that no trial can be compared with them."""
        return self.trials[0].objective is None

    def find(self, trial: Trial) -> Path | None:
        """Return the folder in which a trial is measured again; None if there is none yet. There the trial is
        measured alternately with the default configuration, or alone if the default was not measured."""
        place = self.trials.index(trial)
        return (find_alone if self.is_alone else find_pair)(self.folder, place)

    def result(self, again: Path) -> Result | None:
        """Read the result of a trial that was measured again, from the folder `again`. Raises InputError if the
        result cannot be read."""
        return read_result(again if self.is_alone else again / NEW, self.record.kind)


def measure_again(folder: Path, context: Context) -> None:
    """Measure the best feasible trial of a complete search again, in alternation with the default configuration and
    with new seeds. The results are a pair of run sets in the search's folder. If the default configuration measured
    nothing in the search, measure only the trial.

    If the trial misses a constraint this time, the second best trial is measured again, too. A measurement that the
    folder already holds is not repeated.
    """
    search = _FinishedSearch.read(folder)
    for trial in search.candidates:
        again = search.find(trial) or _begin_again(search, trial, context)
        complete(again, replace(context, python=None))
        with suppress(InputError):  # a damaged set meets no constraint; finish_search reports it
            result = search.result(again)
            if result is not None and not count_missed(search.asked, result):
                return


def _begin_again(search: _FinishedSearch, trial: Trial, context: Context) -> Path:
    """Make the folder in which a trial is measured again, together with the default or alone, and return the folder.
    The seeds differ from those of all earlier trials."""
    for begun, file in [("beside-*", EXPERIMENT_FILE), (f"{AGAIN}*", f"extra/{RUN_SET_FILE}")]:
        for path in search.folder.glob(begun):
            if path.is_dir() and not (path / file).exists():
                remove(path)  # left incomplete by a crash
    record, default = search.record, parts_of(search.folder)[0]
    source = read_source(default)
    used, reserved = set(source.record.seeds), reserved_seeds(source.config.benchmark.name)
    seed = next(
        seed for seed in count(record.base_seed + 1) if used.isdisjoint(derive_seeds(seed, MIN_RUNS, reserved))
    )
    if search.is_alone:
        return create_again(search.folder, record, trial.values, num_runs=MIN_RUNS, seed=seed)
    point = make_point(trial.values, source.config.workload.model_spec)
    model = source.config.tables["runtime"].get(MODEL_KEY) or source.config.benchmark.model
    code = outside_names(str(model), source.config.workload.runtime.implementation)
    granted = [Override(key=f"runtime.{what}", value=name, source="search") for what, name in code.items()]
    request = Request(
        beside=default, runs=MIN_RUNS, seed=seed, output=search.folder, quiet=context.watcher.quiet,
        overrides=[*granted, *overrides_of(point)], typed=split_command(record.command),
        prepare=context.hooks.prepare, cleanup=context.hooks.cleanup, power_command=context.hooks.power_command,
    )  # fmt: skip
    return create_group(prepare(expand(request)))


def find_pair(folder: Path, best: int) -> Path | None:
    """Return the folder in which a search's default and the trial at index `best` are measured again as a pair, with
    at least MIN_RUNS new seeds; None if there is no such folder yet."""
    return _find(folder, (0, best), [path.parent for path in sorted(folder.glob(f"beside-*/{EXPERIMENT_FILE}"))])


def find_alone(folder: Path, best: int) -> Path | None:
    """Return the folder in which only the trial at index `best` of a search is measured again, with at least MIN_RUNS
    new seeds; None if there is no such folder yet."""
    return _find(folder, (best,), [path.parents[1] for path in sorted(folder.glob(f"{AGAIN}*/extra/{RUN_SET_FILE}"))])


def _find(folder: Path, places: Sequence[int], found: Sequence[Path]) -> Path | None:
    """Return the first of the folders `found` in which the trials at the indices `places`, and no others, were
    measured again, with at least MIN_RUNS seeds that the search did not use; None if there is none."""
    trials = [open_run_set(parts_of(folder)[place])[1] for place in places]
    for path in found:
        sides = [open_run_set(side)[1] for side in parts_of(path).values()]
        configs = [[{key: each.value for key, each in one.config.items()} for one in of] for of in (trials, sides)]
        new = [seed for side in sides[:1] for seed in side.seeds if seed not in trials[0].seeds]
        if configs[0] == configs[1] and MIN_RUNS <= len(new) == sides[0].num_runs:
            return path
    return None


def finish_search(folder: Path, problem: str = "") -> FinishedStudy:
    """Compare a search's best trial with the default if both were measured again, and write the study and its page;
    `problem` is the reason why they were not measured again, '' if they were."""
    search, source = _FinishedSearch.read(folder), read_source(parts_of(folder)[0])
    code = ExitCode.INCONCLUSIVE if best_of(search.asked, search.trials) is None else ExitCode.DONE
    again = Again(problem=problem)
    try:
        if not problem and (found := _read_again(search)) is not None:
            again, code = found
    except InputError as error:  # such as a process that knows no AUC
        again, code = Again(problem=first_line(error)), ExitCode.INCONCLUSIVE
    shared = shared_threads(source.record)
    study = make_search_study(search.record, search.trials, source.config.benchmark, again, shared)
    study = change(study, made=making_of(search.record, source.record))
    write_record(folder / STUDY_FILE, study)
    content = gather_everything([folder])
    if again.trial is not None:
        content = _leave_out(content, [search.find(trial) for trial in search.candidates if trial is not again.trial])
    return FinishedStudy(study=study, page=write_page(content, folder), code=code)


def _leave_out(content: ReportContent, others: Sequence[Path | None]) -> ReportContent:
    """Return a page's content without the results in the folders `others`. Those folders hold trials that missed a
    constraint when measured again, and the page would otherwise compare them with the search's result."""
    left_out = [found for found in others if found is not None]
    kept = [
        result
        for result in content.results
        if result.place is None or not any(result.place.is_relative_to(found) for found in left_out)
    ]
    return replace(content, results=tuple(replace(result, index=at) for at, result in enumerate(kept)))


def _read_again(search: _FinishedSearch) -> tuple[Again, ExitCode] | None:
    """Return a trial's second measurement and the command's exit code; None if no trial was measured again. The trial
    is the first that met all constraints when measured again or, if none did, the best of the search."""
    missed, first = list[tuple[Trial, str]](), None
    for trial in search.candidates:
        if (place := search.find(trial)) is None:
            break
        found = _read_one(search, trial, place)
        if not found[0].problem:
            return replace(found[0], missed=tuple(missed)), found[1]
        missed.append((trial, found[0].problem))
        first = first or found
    return first


def _read_one(search: _FinishedSearch, trial: Trial, place: Path) -> tuple[Again, ExitCode]:
    """Return the result of one trial of a search that was measured again, and the exit code of the command."""
    asked, code, comparison = search.asked, ExitCode.DONE, None
    if search.is_alone:
        result = search.result(place)
        if result is None:
            raise InputError(f"{place}: found nothing, expected {search.record.kind} of {MIN_RUNS} processes.")
    else:
        done = finish_sides(place)
        base, result = (_by_column(side, asked.objective) for side in (done.sets or done.measured))
        (comparison,), code = compare_results(base, [result]), exit_code_of_sides(done)
    num_missed, problem = count_missed(asked, result), ""
    if num_missed:
        problem, code = (
            f"Missed a constraint in {num_missed} of {result.num_runs}: not feasible.",
            ExitCode.INCONCLUSIVE,
        )
    columns = tuple(measured_columns(each, asked) for each in result.repetitions)
    return Again(trial=trial, comparison=comparison, columns=columns, problem=problem), code


def _by_column(result: Result, column: str) -> Result:
    """Return a result with `column` as the measure by which it is compared; unchanged if it is compared by that
    column anyway."""
    if column == (TIME_TO_TRAIN.member if result.is_logged else result.measure.value):
        return result
    name = f"{result.kind}.{column}"
    repetitions = tuple(
        replace(each, values={} if (value := column_value(each.record, column)) is None else {name: value}, steps={})
        for each in result.repetitions
    )
    return replace(result, quantities=(name,), repetitions=repetitions)
