"""After the last repetition: judge and score what has logs, compare sides, write the pages; and the exit code."""

import shlex
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

from harness.config.axes import overrides_of
from harness.config.catalog import MODEL_KEY
from harness.config.run_config import Override
from harness.experiment.create import create_group
from harness.experiment.expand import expand
from harness.experiment.loop import Watcher, complete
from harness.experiment.prepare import prepare
from harness.experiment.request import Request
from harness.experiment.search.sampler import choose_sampler
from harness.experiment.search.space import make_point
from harness.experiment.search.study import make_search_study
from harness.experiment.search.trials import best_of, judge, measured_columns, read_trials
from harness.experiment.sides import read_source
from harness.experiment.store import parts_of, read
from harness.foundation.errors import ExitCode, HarnessError, first_line
from harness.foundation.files import write_record
from harness.foundation.study import make_study
from harness.measure.kinds import find_kind
from harness.run_sets.folder import open_run_set
from harness.run_sets.hooks import NO_HOOKS, Hooks
from reference_models.process.atomic_write import remove
from reference_models.registry import outside_names
from reports.comparison.comparison import compare_results
from reports.comparison.records import Comparison
from reports.comparison.sweep import SweepFacts
from reports.page.content import ReportContent, gather_everything
from reports.page.report import write_page
from reports.results.measured import read_measured
from reports.results.result import Result
from reports.statistics.intervals import MIN_RUNS
from reports.views.suite import read_suite_facts
from rules.benchmarks.seeds import derive_seeds, reserved_seeds
from rules.errors import InputError
from rules.logs.text import printable
from rules.records.columns import TIME_TO_TRAIN, column_value
from rules.records.experiment import EXPERIMENT_FILE, ExperimentRecord
from rules.records.study import STUDY_FILE, SUITE, Parameter, StudyRecord

_WORST_FIRST = (
    ExitCode.INTERRUPTED, ExitCode.INTERNAL_ERROR, ExitCode.INPUT, ExitCode.RESOURCES, ExitCode.TIMEOUT,
    ExitCode.ENVIRONMENT, ExitCode.NOT_CONVERGED, ExitCode.COMPLIANCE, ExitCode.USAGE,
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class FinishedSides:
    """Two sides that were just completed: either sets of runs or measurements, and the second against the first."""

    page: Path
    comparisons: tuple[Comparison, ...]
    sets: tuple[Result, ...] = ()
    measured: tuple[Result, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class FinishedStudy:
    """A suite or a search that was just completed: its study, as it is kept and shown."""

    study: StudyRecord
    page: Path
    code: ExitCode


def finish_set(folder: Path) -> tuple[Result, Path]:
    """Read, judge and score a set, once, and write its page. Writes nothing else; can be repeated at any time."""
    gathered = gather_everything([folder])
    if len(gathered.sets) != 1:
        places = ", ".join(printable(result.verdict.subject) for result in gathered.sets)
        raise HarnessError(
            f"{folder}: holds results in {places}, expected those of its own runs alone. Move away what is not its.",
            ExitCode.INPUT,
        )
    (result,) = gathered.sets
    return result, write_page(gathered, folder)


def write_folder_page(folder: Path) -> Path:
    """Write the page of all that is in a folder of results, such as a sweep; returns its path."""
    return write_page(gather_everything([folder]), folder)


def exit_code_of_set(result: Result) -> ExitCode:
    """Return NOT_CONVERGED or TIMEOUT where runs that failed leave no score, COMPLIANCE where a rule is broken."""
    failed = [run for run in result.score.runs if not run.converged]
    if failed and result.score.score_s is None:
        timed_out = all(run.abort_reason == "timeout" for run in failed)
        return ExitCode.TIMEOUT if timed_out else ExitCode.NOT_CONVERGED
    return ExitCode.COMPLIANCE if result.outcome == "invalid" else ExitCode.DONE


def worst_of(codes: Iterable[ExitCode]) -> ExitCode:
    """Return the exit code that says most of what went wrong; DONE where nothing did."""
    found = list(codes)
    return next((code for code in _WORST_FIRST if code in found), max(found, default=ExitCode.DONE))


def finish_sides(folder: Path) -> FinishedSides:
    """Judge and score both sides, once, compare them, and write the page of each and of both."""
    kind, sides = find_kind(read(folder).kind), list(parts_of(folder).values())
    gathered = gather_everything([folder])
    page = write_page(gathered, folder)
    if kind.keeper == "logs":
        base, new = (_only(gathered, side) for side in sides)
        for result in (base, new):
            assert result.place is not None
            write_page(ReportContent(results=(replace(result, index=0),)), result.place)
        compared = compare_results(base, [new])
        return FinishedSides(page=page, comparisons=compared, sets=(base, new))
    measured = tuple(read_measured(side, kind.name) for side in sides)
    compared = compare_results(measured[0], [measured[1]])
    return FinishedSides(page=page, comparisons=compared, measured=measured)


def _only(gathered: ReportContent, folder: Path) -> Result:
    """Return the one set of results in the folder of a side. Raises HarnessError (exit 8) where there is another."""
    found = [result for result in gathered.sets if result.place == folder]
    if len(found) != 1:
        raise HarnessError(f"{folder}: holds {len(found)} sets of results, expected its own alone.", ExitCode.INPUT)
    return found[0]


def finish_suite(folder: Path) -> FinishedStudy:
    """Judge and compare all sides of a suite, write what was found as a study, and its page."""
    gathered = gather_everything([folder])
    facts = read_suite_facts(folder, known=gathered.sets)
    given = (("suite", facts.name), ("runs of each side", facts.num_runs), ("kind", facts.kind))
    study = make_study(
        SUITE,
        facts.title,
        None,
        tables=facts.tables,
        parameters=[Parameter(name=name, value=value, unit=None, source="given", note=None) for name, value in given],
        findings=facts.findings,
        seed=facts.base_seed,
    )
    write_record(folder / STUDY_FILE, study)
    page = write_page(replace(gathered, studies=(study,)), folder)
    code = ExitCode.NOT_CONVERGED if facts.failed else ExitCode.DONE  # one that is not in the mean, for any reason
    return FinishedStudy(study=study, page=page, code=code)


def measure_again(
    folder: Path, *, watcher: Watcher | None = None, hooks: Hooks = NO_HOOKS, log_to: Path | None = None
) -> None:
    """Measure the default of a complete search and its best feasible trial again, as a pair in its folder, with seeds
    that no trial had. Does nothing where one of the two measured nothing; goes on with a pair that is there."""
    record, default = read(folder), parts_of(folder)[0]
    assert record.stop is not None and record.stop.search is not None
    trials = read_trials(folder, record)
    best = best_of(record.stop.search, trials[1:])
    if best is None or trials[0].objective is None:
        return
    pair = find_pair(folder, trials.index(best))
    if pair is None:
        for begun in folder.glob("beside-*"):
            if begun.is_dir() and not (begun / EXPERIMENT_FILE).exists():
                remove(begun)  # what was not whole before a crash
        source = read_source(default)
        used, reserved = set(source.record.seeds), reserved_seeds(source.config.benchmark.name)
        seed = next(
            seed for seed in count(record.base_seed + 1)
            if used.isdisjoint(derive_seeds(seed, MIN_RUNS, reserved))
        )  # fmt: skip
        point = make_point(best.values, source.config.workload.model_spec)
        model = source.config.tables["runtime"].get(MODEL_KEY) or source.config.benchmark.model
        code = outside_names(str(model), source.config.workload.runtime.implementation)
        granted = [Override(key=f"runtime.{what}", value=name, source="search") for what, name in code.items()]
        request = Request(
            beside=default, runs=MIN_RUNS, seed=seed, output=folder, quiet=watcher is None or watcher.quiet,
            overrides=[*granted, *overrides_of(point)], typed=shlex.split(record.command),
            prepare=hooks.prepare, cleanup=hooks.cleanup, power_command=hooks.power_command,
        )  # fmt: skip
        pair = create_group(prepare(expand(request)))
    complete(pair, watcher=watcher, hooks=hooks, log_to=log_to)


def find_pair(folder: Path, best: int) -> Path | None:
    """Return the pair in the folder of a search that is of its default and the trial in the place `best`, with as
    many seeds as make a verdict and none of the trials'; None where there is none yet."""
    trials = [open_run_set(parts_of(folder)[place])[1] for place in (0, best)]
    for path in sorted(folder.glob(f"beside-*/{EXPERIMENT_FILE}")):
        sides = [open_run_set(side)[1] for side in parts_of(path.parent).values()]
        configs = [[{key: each.value for key, each in one.config.items()} for one in of] for of in (trials, sides)]
        new = [seed for side in sides[:1] for seed in side.seeds if seed not in trials[0].seeds]
        if configs[0] == configs[1] and MIN_RUNS <= len(new) == sides[0].num_runs:
            return path.parent
    return None


def finish_search(folder: Path, problem: str = "") -> FinishedStudy:
    """Compare the best trial with the default where both were measured again, write the study and its page; `problem`
    is why they were not."""
    record = read(folder)
    assert record.stop is not None and record.stop.search is not None
    search, comparison = record.stop.search, None
    trials, source = read_trials(folder, record), read_source(parts_of(folder)[0])
    best = best_of(search, trials[1:])
    pair = None if best is None or problem else find_pair(folder, trials.index(best))
    code = ExitCode.INCONCLUSIVE if best_of(search, trials) is None else ExitCode.DONE
    try:
        done = None if pair is None else finish_sides(pair)
    except InputError as error:  # such as a process that knows no AUC
        done, problem, code = None, first_line(error), ExitCode.INCONCLUSIVE
    if done is not None:
        base, new = (_by_column(side, search.objective) for side in (done.sets or done.measured))
        (comparison,) = compare_results(base, [new])
        missed = [each for each in new.repetitions if judge(search, measured_columns(each, search))[1] is not None]
        code = ExitCode.INCONCLUSIVE if missed else exit_code_of_sides(done)
        if missed:
            problem = f"Missed a constraint in {len(missed)} of {new.num_runs}: not feasible."
    sampler = choose_sampler(search.sampler, trials)
    study = make_search_study(record, trials, source.config.benchmark, sampler, comparison, problem)
    write_record(folder / STUDY_FILE, study)
    return FinishedStudy(study=study, page=write_page(gather_everything([folder]), folder), code=code)


def _by_column(result: Result, column: str) -> Result:
    """Return a result by which a column is compared, where that is not what its kind compares."""
    if column == (TIME_TO_TRAIN.member if result.is_logged else result.measure.value):
        return result
    name = f"{result.kind}.{column}"
    repetitions = tuple(
        replace(each, values={} if (value := column_value(each.record, column)) is None else {name: value}, steps={})
        for each in result.repetitions
    )
    return replace(result, quantities=(name,), repetitions=repetitions)


def exit_code_of_sides(finished: FinishedSides) -> ExitCode:
    """Return the worse of both sides' codes, as `exit_code_of_set` has them."""
    return worst_of(exit_code_of_set(result) for result in finished.sets)


def write_pages(folder: Path) -> None:
    """Write what a complete experiment is shown on: the page of a set with logs, of both sides, of a matrix."""
    record = read(folder)
    if record.relation == "sides":
        finish_sides(folder)
    elif record.relation == "suite":
        finish_suite(folder)
    elif record.relation == "search":
        try:
            measure_again(folder)
        except HarnessError as error:
            finish_search(folder, first_line(error))
            raise
        finish_search(folder)
    elif record.relation == "matrix":
        write_folder_page(folder)
    elif find_kind(record.kind).keeper == "logs":
        finish_set(folder)


def exit_code_from(number: int) -> ExitCode:
    """Return the exit code of a number in a file; one that no version writes is damage."""
    return ExitCode(number) if number in set(ExitCode) else ExitCode.INPUT


def exit_code_of_matrix(record: ExperimentRecord, facts: SweepFacts) -> ExitCode:
    """Find the worst of all configurations' codes: one that failed, did not converge, or broke a rule."""
    codes = [exit_code_from(entry.failure.exit_code) for entry in record.configurations if entry.failure is not None]
    codes += [exit_code_of_set(row.result) for row in facts.rows if row.result is not None and row.result.judged]
    codes += [ExitCode.INCONCLUSIVE] if facts.law is not None and facts.law.fitted is None else []
    return worst_of(codes)
