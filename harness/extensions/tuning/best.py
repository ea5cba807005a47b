"""The best trial beside the default: measured again, in turns, and the study of the whole search."""

from dataclasses import replace
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
from harness.extensions.tuning.records import search_of
from harness.extensions.tuning.sampler import choose_sampler
from harness.extensions.tuning.space import make_point
from harness.extensions.tuning.study import make_search_study
from harness.extensions.tuning.trials import (
    best_of,
    judge,
    measured_columns,
    read_trials,
)
from harness.foundation.errors import ExitCode, first_line
from harness.foundation.files import write_record
from harness.run_sets.commands import split_command
from harness.run_sets.folder import open_run_set
from harness.run_sets.making import making_of
from reference_models.process.atomic_write import remove
from reference_models.registry import outside_names
from reports.comparison.comparison import compare_results
from reports.page.content import gather_everything
from reports.page.report import write_page
from reports.results.result import Result
from reports.statistics.intervals import MIN_RUNS
from rules.benchmarks.seeds import derive_seeds, reserved_seeds
from rules.errors import InputError
from rules.records.columns import TIME_TO_TRAIN, column_value
from rules.records.experiment import EXPERIMENT_FILE
from rules.records.study import STUDY_FILE


def measure_again(folder: Path, context: Context) -> None:
    """Measure the default of a complete search and its best feasible trial again, as a pair in its folder, with seeds
    that no trial had. Does nothing where one of the two measured nothing; goes on with a pair that is there."""
    record, default = read(folder), parts_of(folder)[0]
    trials = read_trials(folder, record)
    best = best_of(search_of(record), trials[1:])
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
            seed for seed in count(record.base_seed + 1) if used.isdisjoint(derive_seeds(seed, MIN_RUNS, reserved))
        )
        point = make_point(best.values, source.config.workload.model_spec)
        model = source.config.tables["runtime"].get(MODEL_KEY) or source.config.benchmark.model
        code = outside_names(str(model), source.config.workload.runtime.implementation)
        granted = [Override(key=f"runtime.{what}", value=name, source="search") for what, name in code.items()]
        request = Request(
            beside=default, runs=MIN_RUNS, seed=seed, output=folder, quiet=context.watcher.quiet,
            overrides=[*granted, *overrides_of(point)], typed=split_command(record.command),
            prepare=context.hooks.prepare, cleanup=context.hooks.cleanup, power_command=context.hooks.power_command,
        )  # fmt: skip
        pair = create_group(prepare(expand(request)))
    complete(pair, replace(context, python=None))


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
    search, comparison = search_of(record), None
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
    study = change(study, made=making_of(record, source.record))
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
