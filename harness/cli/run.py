"""`run` and `resume`: train to the target, judge, score, report."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import click
from click.core import ParameterSource

from harness.cli.compare import fraction
from harness.cli.shared.measurements import Measured, asked_kind, externally_launched_ranks, measurements
from harness.cli.shared.measuring import measure_and_show
from harness.cli.shared.options import (
    BENCHMARK,
    QUIET,
    STRICT_ENV,
    TIMEOUT,
    Configured,
    ResultPath,
    collect_overrides,
    configuration,
    output_option,
    warn_of_system,
)
from harness.cli.shared.output import form_option, show, show_json
from harness.foundation.errors import HarnessError

if TYPE_CHECKING:
    from harness.run_sets.pair import PairRequest


class ProgramPath(click.Path):
    """What names a program."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from harness.foundation.files import program_path

        return program_path(value)


PYTHON = click.option(
    "--python", type=ProgramPath(), metavar="PYTHON",
    help="Interpreter whose dlrmbench runs the base of --beside, such as OTHER/bin/python.  [default: this one]",
)  # fmt: skip


class RunOptions(Configured, Measured):
    """What the options of `run` that it shares hand to it."""


@click.command()
@BENCHMARK
@configuration
@click.option("-n", "--runs", "num_runs", type=click.IntRange(min=1), help="Runs.  [default: the benchmark's number]")
@output_option("Folder in which the set's own folder is made.")
@click.option("--seed", type=click.IntRange(min=0), help="Base seed, to reproduce a set.  [default: drawn, logged]")
@TIMEOUT
@click.option(
    "--until", "width", type=fraction, metavar="FRACTION",
    help="Add runs until the mean time to train is known to FRACTION, such as 3%: its interval is that narrow.",
)  # fmt: skip
@click.option("--max-runs", type=click.IntRange(min=1), help="Most runs that --until makes.  [default: 30]")
@measurements
@click.option(
    "--keep-weights", is_flag=True, help="Keep the weights that each run ends with, in extra/run_<i>/weights."
)
@click.option(
    "--run-index",
    type=click.IntRange(min=0),
    help="Be one rank of this run, in a world that torchrun or srun started; -o is then the set itself.",
)
@click.option(
    "--beside", type=ResultPath(), metavar="SET",
    help="Measure SET's configuration again and this one in turns, with equal seeds, and compare them.",
)  # fmt: skip
@PYTHON
@STRICT_ENV
@form_option("table", "json", text="What stdout says at the end: a summary, or the same as JSON and nothing else.")
@QUIET
def run(
    benchmark: str,
    num_runs: int | None,
    output: Path,
    seed: int | None,
    timeout_s: float | None,
    width: float | None,
    max_runs: int | None,
    keep_weights: bool,
    run_index: int | None,
    beside: Path | None,
    python: Path | None,
    strict_env: bool,
    form: str,
    quiet: bool,
    **given: Unpack[RunOptions],
) -> None:
    """Train BENCHMARK to its quality target, as many times as it asks for; then check, score and report.

    BENCHMARK is a name from 'dlrmbench list' or the path of a TOML definition; dlrm_small by default.

    Weights of --keep-weights are written after run_stop, off the clock; 'package --weights' packages them.

    With --beside SET, a run set or a measurement, -n pairs of runs are made in turns: SET's configuration again, in
    --python OTHER's environment and code where that is given, and the new one: SET's with the options given here, or
    all that this command line says where it names a BENCHMARK. What SET measured, both measure. Two sets measured one
    after the other differ by whatever the system did meanwhile; a pair does not. 'compare PAIR/base PAIR/new
    --fail-on regression' makes its verdict an exit code.
    """
    from harness.config.matmul import give_matmul
    from harness.run_sets.choice import choose
    from harness.run_sets.folder import open_run_set
    from harness.run_sets.growth import make_until
    from harness.run_sets.names import link_latest
    from harness.run_sets.pair import PairRequest
    from harness.run_sets.prepare import (
        num_runs_of,
        prepare,
        refuse_disturbed_environment,
        refuse_impossible,
        refuse_output,
        resolve_for,
    )
    from harness.run_sets.runner import RunRequest, start_set
    from reports.text.formatting import plural

    kind, options = asked_kind(given, timeout_s)
    if keep_weights and (beside is not None or not kind.is_scored):
        raise click.UsageError(
            "--keep-weights is for runs to the target of one set; a measurement trains nothing whole."
        )
    if beside is not None:
        if width is not None or max_runs is not None or run_index is not None:
            raise click.UsageError("--beside makes -n pairs itself; leave --until, --max-runs and --run-index out.")
        externally_launched_ranks(None, kind, given)
        if strict_env:
            refuse_disturbed_environment(given["data_root"], output)
        is_given = click.get_current_context().get_parameter_source("benchmark") is not ParameterSource.DEFAULT
        pair = PairRequest(
            source=beside,
            python=python,
            benchmark=benchmark if is_given else None,
            overrides=collect_overrides(given),
            matmul=given["matmul"],
            name=given["name"],
            kind=kind.name if options else None,
            asked=options or None,
            num_runs=num_runs,
            base_seed=seed,
            division=given["division"],
            timeout_s=timeout_s,
            data_root=given["data_root"],
            output=output,
            command=["dlrmbench", *sys.argv[1:]],
            quiet=quiet,
        )
        start_pair_and_show(pair, form=form)
    if python is not None:
        raise click.UsageError("--python is the interpreter of the set that --beside names; give that too.")
    launched_ranks = externally_launched_ranks(run_index, kind, given)
    if launched_ranks is not None and given["ranks"] not in (None, launched_ranks):
        raise click.UsageError(
            f"--ranks is {given['ranks']}, but {launched_ranks} ranks were started. Leave --ranks out."
        )
    if width is None and max_runs is not None:
        raise click.UsageError("--max-runs is the end of --until; give that too, or -n for a number of runs.")
    if width is not None and (not kind.is_scored or run_index is not None or width == 0):
        raise click.UsageError("--until is a fraction above 0, for runs to the target that this command starts.")
    config = resolve_for(kind, benchmark, collect_overrides(given, launched_ranks), given["name"])
    runs = num_runs_of(kind, config, num_runs)
    until = None if width is None else make_until(config.benchmark, width, runs, max_runs)
    refuse_impossible(config.workload)
    matmul = give_matmul(given["matmul"], [config.workload])
    refuse_output(output)
    if strict_env:
        refuse_disturbed_environment(given["data_root"], output)
    prepared = prepare(config, given["data_root"], quiet=quiet)
    if run_index is None:
        prepared = choose(config, prepared, known={}, given=matmul, quiet=quiet)
    request = RunRequest(
        num_runs=runs,
        until=until,
        base_seed=seed,
        division=given["division"],
        timeout_s=timeout_s,
        kind=kind.name,
        options=kind.fit(options, [prepared.size]),
        output=output,
        command=["dlrmbench", *sys.argv[1:]],
        quiet=quiet,
        keep_weights=keep_weights,
    )
    if run_index is not None:
        from harness.run_sets.external import run_in_world

        click.get_current_context().find_root().obj["is_rank"] = True
        if summary := run_in_world(config, prepared, request, run_index):
            click.echo(summary, err=form == "json")
        return
    run_set = start_set(config, prepared, request)
    if not quiet:
        warn_of_system(open_run_set(run_set.folder)[1].preflight)
    link_latest(run_set.folder)
    if not kind.is_scored:
        measure_and_show(run_set.folder, form=form, quiet=quiet)
        return
    if not quiet:
        if "submitter" not in config.submission:
            click.echo(
                "note: no submitter is given (--submitter), so this set cannot be packaged as a submission.", err=True
            )
        asked = plural(runs, "run") if until is None else f"{runs} to {until.max_runs} runs"
        threads, problem = plural(prepared.num_threads, "thread"), config.benchmark
        ranks = config.workload.runtime.ranks
        click.echo(
            f"{problem.name}: {asked} to {problem.metric.label} {problem.quality.target:g} on "
            f"{config.workload.runtime.device}, {threads if ranks == 1 else f'{ranks} ranks of {threads}'}, in "
            f"{run_set.folder}",
            err=True,
        )
    complete_and_finish(run_set.folder, form=form, quiet=quiet)


@click.command()
@click.argument("folder", type=ResultPath())
@click.option("--model", "models", multiple=True, help="A model of the set that another package provides.")
@click.option(
    "--implementation",
    "implementations",
    multiple=True,
    help="An implementation of the set, likewise or FILE.py:OBJECT.",
)
@click.option(
    "-n", "--runs", "num_runs", type=click.IntRange(min=1), help="Runs that it then holds in all, no fewer."
)
@PYTHON
@form_option("table", "json", text="What stdout says at the end, as of 'run' and 'sweep'.")
@QUIET
def resume(
    folder: Path,
    models: tuple[str, ...],
    implementations: tuple[str, ...],
    num_runs: int | None,
    python: Path | None,
    form: str,
    quiet: bool,
) -> None:
    """Complete the run set, the sweep or the pair in FOLDER with its stored configuration; finished runs are kept.

    With --runs it grows: to so many runs of each configuration in all, each with the next seed of its base seed. The
    score of a benchmark of your own stays that of its first runs; comparisons and intervals use all. A set of 'run
    --until' then ends there. The environment is checked again: it warns, or refuses a set of --strict-env.
    """
    from harness.cli.sweep import complete_and_show
    from harness.run_sets.folder import open_run_set, resuming
    from harness.run_sets.growth import grow
    from harness.run_sets.pair import is_pair, refuse_side
    from harness.run_sets.prepare import check_again, refuse_outside_code
    from harness.run_sets.runner import describe_other_code
    from harness.run_sets.sweep import is_sweep
    from rules.records.kinds import IN_PROCESSES

    refuse_outside_code(folder, {"model": models, "implementation": implementations})
    refuse_side(folder)
    if python is not None and not is_pair(folder):
        raise click.UsageError(f"--python is for a pair of 'run --beside', and {folder} is none. Leave it out.")
    holds_several = is_sweep(folder) or is_pair(folder)
    parts = sorted(path.parents[1] for path in folder.glob("*/extra/run_set.json")) if holds_several else [folder]
    others = (describe_other_code(part, open_run_set(part)[1]) for part in parts if not is_pair(folder))
    if other := next(filter(None, others), None):
        click.echo(f"warning: {other} What is resumed will hold runs of both.", err=True)
    for part in parts[:1]:  # all were begun alike
        checks = check_again(folder, open_run_set(part)[1])
        warn_of_system([] if quiet else checks)
    click.get_current_context().with_resource(resuming(folder))
    if is_pair(folder):
        complete_pair_and_show(folder, python=python, num_runs=num_runs, form=form, quiet=quiet)
    if num_runs is not None:
        grow(folder, num_runs)
    if is_sweep(folder):
        complete_and_show(folder, form=form, quiet=quiet)
    if open_run_set(folder)[1].kind in IN_PROCESSES:
        measure_and_show(folder, form=form, quiet=quiet)
    else:
        complete_and_finish(folder, form=form, quiet=quiet)


def complete_and_finish(folder: Path, *, form: str = "table", quiet: bool) -> None:
    """Run what is missing, then judge, score and report; exits with the set's code."""
    from harness.run_sets.finish import exit_code_of_set, finish_set
    from harness.run_sets.growth import complete_and_grow
    from harness.run_sets.runner import resume_command
    from reports.views.score import finished_blocks, finished_document

    def on_growth(num_runs: int) -> None:
        if not quiet:
            click.echo(f"not precise enough yet: run {num_runs} is added", err=True)

    try:
        run_set = complete_and_grow(folder, quiet=quiet, on_growth=on_growth)
    except BaseException as error:
        if not isinstance(error, HarnessError):
            click.echo(f"Finished runs are kept. Complete the set with: {resume_command(folder)}", err=True)
        raise
    facts, page = finish_set(folder)
    if form == "json":
        show_json(finished_document(facts, run_set.system, folder, page))
    else:
        show(finished_blocks(facts, run_set.system, folder, page))
    click.get_current_context().exit(int(exit_code_of_set(facts)))


def start_pair_and_show(request: "PairRequest", *, form: str) -> None:
    """Make a new pair of sets and complete it; exits with its code."""
    from harness.run_sets.folder import open_run_set
    from harness.run_sets.names import link_latest
    from harness.run_sets.pair import start_pair
    from rules.records.pair import BASE

    folder = start_pair(request)
    if not request.quiet:
        warn_of_system(open_run_set(folder / BASE)[1].preflight)
    link_latest(folder)
    complete_pair_and_show(folder, python=request.python, form=form, quiet=request.quiet)


def complete_pair_and_show(
    folder: Path, *, python: Path | None, num_runs: int | None = None, form: str = "table", quiet: bool
) -> None:
    """Run what is missing in turns, compare, report; exits with the worse of both sides' codes."""
    from harness.cli.sweep import progress_printer
    from harness.run_sets.finish import exit_code_of_pair, finish_pair
    from harness.run_sets.growth import grow
    from harness.run_sets.pair import complete_pair, resume_pair
    from reports.views.pair import pair_blocks, pair_document

    if num_runs is not None:
        grow(folder, num_runs)
    try:
        pair = complete_pair(folder, python=python, quiet=quiet, on_run=progress_printer(quiet=quiet))
    except BaseException as error:
        if not isinstance(error, HarnessError):
            click.echo(f"Finished runs are kept. Complete the pair with: {resume_pair(folder)}", err=True)
        raise
    done = finish_pair(folder, pair)
    if form == "json":
        show_json(pair_document(done.sets, done.measured, done.comparisons, folder, done.page))
    else:
        show(pair_blocks(done.sets, done.measured, done.comparisons, done.page))
        click.echo(f"results  {folder}")
        click.echo(f"report   {done.page}")
    click.get_current_context().exit(int(exit_code_of_pair(done)))
