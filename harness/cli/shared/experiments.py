"""Start or continue an experiment from the command line: announce its progress, and show its results."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.shared.output import note, show, show_as, show_json
from harness.foundation.errors import ExitCode, HarnessError, first_line
from harness.foundation.status_line import StatusLine

if TYPE_CHECKING:
    from harness.experiment.context import Context, Progress
    from harness.experiment.experiment import Configuration, Experiment
    from harness.experiment.request import Request
    from harness.run_sets.keepers import KeptOutcome
    from rules.records.experiment import ExperimentRecord, ReadsAs


@contextmanager
def usage_errors() -> Iterator[None]:
    """Turn a RequestError (arguments that contradict each other, or do not fit the command) of the caller's block
    into click's usage error."""
    from harness.experiment.request import RequestError

    try:
        yield
    except RequestError as error:
        raise click.UsageError(str(error)) from None


def start_and_show(request: "Request", *, form: str) -> None:
    """Make a new experiment, complete it and show its results; exit with its exit code."""
    from harness.experiment.context import Context
    from harness.experiment.expand import expand
    from harness.experiment.prepare import prepare

    if request.run_index is not None:
        # A lost rank is reported in one line; torch's warnings about it would fill pages.
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
        from harness.experiment.launched import run_in_world  # a rank trains in this process, with torch

        with usage_errors():
            experiment = prepare(expand(request))
        click.get_current_context().find_root().obj["is_rank"] = True
        if summary := run_in_world(experiment):
            click.echo(summary, err=form == "json")
        return
    complete_and_show(_begin(request), Context.of(request), form=form, quiet=request.quiet)


def _begin(request: "Request") -> Path:
    """Make the folder of a new experiment, announce it and return it. Where the request names the user's own code, a
    child process does this, so that this process never imports that code."""
    from harness.experiment.apart import look_apart, names_outside_code

    def begin() -> str:
        from harness.experiment.create import create
        from harness.experiment.expand import expand
        from harness.experiment.prepare import prepare

        experiment = prepare(expand(request))
        folder = create(experiment)
        _warn_of_environment(folder)
        if not request.quiet:
            _announce(experiment, folder)
        elif experiment.source is not None:
            _warn_of_few_pairs(experiment, folder)
        return str(folder)

    with usage_errors():
        return Path(look_apart(begin, str) if names_outside_code(request) else begin())


def make_group(request: "Request") -> Path:
    """Make a new experiment of several configurations, complete it, announcing each run, and write its page; return
    the experiment's folder."""
    from harness.experiment.context import Context, Watcher
    from harness.experiment.create import create
    from harness.experiment.expand import expand
    from harness.experiment.finish import write_folder_page
    from harness.experiment.loop import complete
    from harness.experiment.prepare import prepare

    with usage_errors():
        folder = create(prepare(expand(request)))
    _warn_of_environment(folder)
    complete(folder, Context(watcher=Watcher(on_step=_say_step)))
    write_folder_page(folder)
    return folder


def _warn_of_environment(folder: Path) -> None:
    """Print the warnings of the environment check that the new experiment's run sets recorded."""
    from harness.experiment.store import parts_of
    from harness.run_sets.environment import warn
    from harness.run_sets.folder import open_run_set

    first, *others = [open_run_set(part)[1].preflight for part in parts_of(folder).values()] or [()]
    of_others = (check for checks in others for check in checks if check.name == "precision")
    warn(dict.fromkeys((*first, *of_others)))  # all others were checked within seconds


def _announce(experiment: "Experiment", folder: Path) -> None:
    """Announce on standard error the experiment that is about to run."""
    from harness.experiment.relation import find_relation

    relation = find_relation(experiment.relation)
    if not relation.is_group:
        for text in experiment.kind.remarks(experiment.configurations[0].config):
            note(text)
        if experiment.kind.keeper == "logs":
            note(_describe_set(experiment, folder))
    elif relation.may_grow:
        note(_describe_group(experiment, folder))


def _warn_of_few_pairs(experiment: "Experiment", folder: Path) -> None:
    """Print, even with --quiet, a warning that a comparison by so few pairs of runs cannot reach a verdict."""
    from reports.statistics.intervals import MIN_RUNS

    if experiment.repetitions < MIN_RUNS:
        note(f"note: {_describe_group(experiment, folder)}")


def _describe_group(experiment: "Experiment", folder: Path) -> str:
    from reports.statistics.intervals import MIN_RUNS
    from reports.text.formatting import plural

    num_runs = experiment.repetitions
    few = "" if num_runs >= MIN_RUNS else f" ({MIN_RUNS} make a verdict)"
    sides = experiment.configurations
    is_same = (
        experiment.source is not None and _values(sides[0]) == _values(sides[1]) and sides[0].installation is None
    )
    same = "the same configuration on both sides, " if is_same else ""
    return f"{same}{plural(len(sides), 'configuration')}, {plural(num_runs, 'run')} each{few}, in {folder}"


def _values(side: "Configuration") -> dict[str, object]:
    return {key: given["value"] for key, given in side.config.values().items()}


def _describe_set(experiment: "Experiment", folder: Path) -> str:
    from reports.text.formatting import plural

    (configuration,), until = experiment.configurations, experiment.until
    config, prepared = configuration.config, configuration.prepared
    assert prepared is not None
    runs = experiment.repetitions
    asked = plural(runs, "run") if until is None else f"{runs} to {until.max_runs} runs"
    threads, problem, runtime = plural(prepared.num_threads, "thread"), config.benchmark, config.workload.runtime
    return (
        f"{problem.name}: {asked} to {problem.metric.label} {problem.quality.target:g} on {runtime.device}, "
        f"{threads if runtime.ranks == 1 else f'{runtime.ranks} ranks of {threads}'}, in {folder}"
    )


def complete_and_show(
    folder: Path, context: "Context", *, num_runs: int | None = None, form: str = "table", quiet: bool
) -> None:
    """Make the missing repetitions of an experiment, growing it to `num_runs` if given; show the results and exit
    with their exit code.

    Unless `quiet`, progress is printed on standard error.
    """
    from harness.experiment.context import Watcher
    from harness.experiment.loop import complete
    from harness.experiment.relation import find_relation
    from harness.experiment.store import read
    from harness.measure.kinds import find_kind
    from harness.run_sets.commands import resume_command
    from reports.text.formatting import printable

    record = read(folder)
    watcher = Watcher(quiet=True, on_lost_energy=_warn_of_energy)
    if not quiet:
        # On a terminal a run leaves the row in which it ended, which has its label.
        is_said_at_its_end = find_kind(record.kind).keeper == "logs" and StatusLine().is_terminal
        watcher = Watcher(
            on_step=partial(_say_step, is_said_at_its_end=is_said_at_its_end),
            on_done=_say_measured,
            on_lost_energy=_warn_of_energy,
            on_growth=lambda number: note(f"not precise enough yet: run {number - 1} is added"),
        )
        if find_kind(record.kind).keeper == "records":  # for runs, the progress display shows each
            watcher = replace(watcher, on_begin=_say_kept)
    context = replace(context, watcher=watcher)
    try:
        record = complete(folder, context, num_runs=num_runs)
        try:
            find_relation(record.relation).end(folder, context)
        except HarnessError as error:
            _show(folder, record, form, first_line(error))
            raise
    except BaseException as error:
        if not isinstance(error, HarnessError):
            parts, whole = _words(record)
            command = printable(resume_command(folder, record.python, context.hooks.asked))
            note(f"Finished {parts} are kept. Complete the {whole} with: {command}")
        raise
    code = _show(folder, record, form)
    click.get_current_context().exit(int(code))


def _warn_of_energy(why: str) -> None:
    """Print a warning on standard error that the user's power command gave no energy, and why. The warning is needed
    because tables of results do not show that energy is missing."""
    from reports.text.formatting import printable

    note(f"warning: no energy from --power-command: {printable(why)}")


def _say_kept(kept: int, planned: int) -> None:
    """Print how many of a measurement's planned processes had been measured before this command and are kept; nothing
    where there were none."""
    if kept:
        note(f"{kept} of {planned} processes had measured before and are kept")


def _say_step(progress: "Progress", *, is_said_at_its_end: bool = False) -> None:
    """Print which configuration's run is next, and the estimated time for all runs that are left."""
    from reports.text.formatting import printable, rough_duration

    if is_said_at_its_end and progress.run_index is not None:
        return
    of = f"[{progress.number}/{progress.total}]"
    run = "" if progress.run_index is None else f", run {progress.run_index}"
    left = "" if progress.left_s is None else f", about {rough_duration(progress.left_s)} left"
    note(f"{of} {printable(progress.label)}{run}{left}")


def _say_measured(index: int, outcome: "KeptOutcome") -> None:
    """Print the value that a process measured, where the progress display has not printed it."""
    from reports.parts.measured import in_unit
    from rules.records.measure import Measurement

    measured = outcome.record
    if outcome.words or not isinstance(measured, Measurement):
        return
    value = getattr(measured.repetitions()[0], measured.measure.value)
    name, text = measured.measure.name, in_unit(value, measured.measure.unit)
    note(f"process {index}: {text if text[-1].isalpha() else f'{name} {text}'}")


def _show_set(folder: Path, record: "ExperimentRecord", form: str) -> ExitCode:
    """Judge and score a run set, write its page and print its results; return the exit code."""
    from harness.experiment.finish import exit_code_of_set, finish_set
    from harness.run_sets.folder import open_run_set
    from reports.views.score import finished_blocks, finished_document

    result, page = finish_set(folder)
    system = open_run_set(folder)[0].system
    found = (result, system, folder, page)
    show_as(form, finished_document(*found), finished_blocks(*found))
    return exit_code_of_set(result)


def _show_measurement(folder: Path, record: "ExperimentRecord", form: str) -> ExitCode:
    """Print the result of all processes of a measurement; return the exit code."""
    from reports.results.measured import read_measured
    from reports.views.measurement import measured_blocks, measurement_document
    from rules.errors import InputError

    path = folder / "extra" / f"{record.kind}.json"
    try:
        measured = read_measured(folder, record.kind)
    except InputError as error:
        raise HarnessError(str(error), ExitCode.INCONCLUSIVE) from None
    show_as(form, measurement_document(measured, path), measured_blocks(measured, path))
    return ExitCode.DONE


def _show_sides(folder: Path, record: "ExperimentRecord", form: str) -> ExitCode:
    """Compare the two configurations of a pair, print the comparison and write its page; return the exit code."""
    from harness.experiment.finish import exit_code_of_sides, finish_sides
    from harness.run_sets.commands import resume_command
    from reports.statistics.intervals import MIN_RUNS
    from reports.text.formatting import printable
    from reports.views.pair import pair_blocks, pair_document

    done = finish_sides(folder)
    if form == "json":
        show_json(pair_document(done.sets, done.measured, done.comparisons, folder, done.page))
    else:
        show(pair_blocks(done.sets, done.measured, done.comparisons, done.page))
        click.echo(f"results  {folder}")
        click.echo(f"report   {done.page}")
        if record.num_runs < MIN_RUNS:
            resume = printable(resume_command(folder, record.python))
            click.echo(f"next     {MIN_RUNS} pairs make a verdict:\n{resume} --runs {MIN_RUNS}")
    return exit_code_of_sides(done)


def _show_matrix(folder: Path, record: "ExperimentRecord", form: str) -> ExitCode:
    """Print all configurations of a sweep in one table, and write its page; return the exit code."""
    from harness.experiment.finish import exit_code_of_matrix, write_folder_page
    from reports.comparison.sweep import read_sweep_facts
    from reports.parts.law import law_record
    from reports.parts.sweep import rows_as_records
    from reports.render.csv import render_csv
    from reports.views.measurement import sweep_blocks

    facts = read_sweep_facts(folder)
    rows = rows_as_records(facts)
    if form == "json":
        show_json(
            {
                "schema_version": 1,
                "name": facts.name,
                "kind": facts.kind,
                "configurations": rows,
                "closing": facts.closing,
                **law_record(facts.law),
            }
        )
    elif form == "csv":
        click.echo(render_csv(list(rows[0]), [row.values() for row in rows]), nl=False)
    else:
        show(sweep_blocks(facts), form)
    page = write_folder_page(folder)
    if form == "table":
        click.echo(f"results  {folder}")
        click.echo(f"report   {page}")
    else:
        click.echo(f"report: {page}", err=True)
    return exit_code_of_matrix(record, facts)


_VIEWS: "Mapping[ReadsAs, Callable[[Path, ExperimentRecord, str], ExitCode]]" = {
    "pair": _show_sides,
    "pairs": _show_matrix,
    "table": _show_matrix,
    "trials": _show_matrix,
}
"""Functions that print a complete experiment of several configurations. The keys are the values of `reads_as` in
experiment.json, which says how the experiment's results are read. An experiment's relation (pair, sweep, …) may have
a `show` method that prints the experiment; no function from here is then used."""


def _show(folder: Path, record: "ExperimentRecord", form: str, problem: str = "") -> ExitCode:
    """Print the results of a complete experiment and return its exit code; `problem` is the reason why its last step
    failed."""
    from harness.experiment.relation import find_relation
    from harness.measure.kinds import find_kind

    relation = find_relation(record.relation)
    code = relation.show(folder, record, form, problem)
    if code is not None:
        return code
    if not relation.is_group:
        has_logs = find_kind(record.kind).keeper == "logs"
        return (_show_set if has_logs else _show_measurement)(folder, record, form)
    return _VIEWS[record.reads_as](folder, record, form)


def _words(record: "ExperimentRecord") -> tuple[str, str]:
    """Return the words for an experiment's repetitions (such as "runs") and for the experiment (such as "sweep")."""
    from harness.experiment.relation import find_relation
    from harness.measure.kinds import find_kind

    relation = find_relation(record.relation)
    if not relation.is_group and find_kind(record.kind).keeper == "records":
        return "processes", "measurement"
    return relation.parts, relation.word
