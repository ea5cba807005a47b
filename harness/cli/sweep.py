"""`sweep`: a matrix of configurations, run interleaved, in one table."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click

from harness.cli.shared.measurements import Measured, asked_kind, measurements
from harness.cli.shared.options import (
    BENCHMARK,
    QUIET,
    STRICT_ENV,
    TIMEOUT,
    Configured,
    collect_overrides,
    configuration,
    output_option,
    warn_of_system,
)
from harness.cli.shared.output import form_option, show, show_json
from harness.cli.shared.serving import weights_override
from harness.foundation.errors import ExitCode, HarnessError

if TYPE_CHECKING:
    from harness.measure.kinds import MeasurementKind
    from harness.run_sets.sweep import OnRun, Progress
    from reports.comparison.sweep import SweepFacts
    from rules.records.study import StudyRecord
    from rules.records.sweep import SweepRecord


class SweepOptions(Configured, Measured):
    """What the options of `sweep` that it shares hand to it."""


@click.command()
@BENCHMARK
@configuration
@click.option(
    "--axis", "axis_texts", multiple=True, required=True, metavar="SECTION.KEY=V1,V2",
    help="What to vary; repeatable: all combinations are run.",
)  # fmt: skip
@click.option("-n", "--runs", "num_runs", type=click.IntRange(min=1), help="Runs of each configuration.")
@output_option("Folder in which the sweep's folder is made.")
@click.option("--seed", type=click.IntRange(min=0), help="Base seed that all configurations share.  [default: drawn]")
@TIMEOUT
@measurements
@click.option(
    "--serve", "is_served", is_flag=True,
    help="Find the queries/s within the latency limit in 5 processes instead, as 'serve' does; any key may vary.",
)  # fmt: skip
@click.option("--weights", metavar="SET[:RUN]", help="Of --serve: weights that 'run --keep-weights' kept.")
@click.option("--keep-weights", is_flag=True, help="Keep the weights that each run ends with, as 'run' does.")
@click.option(
    "--profile", "with_profile", is_flag=True,
    help="Profile each configuration once, after all runs: the table then says what bounds its step.",
)  # fmt: skip
@click.option(
    "--fit", "with_fit", is_flag=True,
    help="Of --quality: fit normalised entropy = a C^-b + c over training FLOP C, of 4 sizes or more over a decade.",
)  # fmt: skip
@click.option(
    "--dry-run", "is_dry", is_flag=True, help="List the configurations and estimate their time; make nothing."
)
@STRICT_ENV
@form_option("table", "json", "csv", "md", text="Form of the final table.")
@QUIET
def sweep(
    benchmark: str,
    axis_texts: tuple[str, ...],
    num_runs: int | None,
    output: Path,
    seed: int | None,
    timeout_s: float | None,
    is_served: bool,
    weights: str | None,
    keep_weights: bool,
    with_profile: bool,
    with_fit: bool,
    is_dry: bool,
    strict_env: bool,
    form: str,
    quiet: bool,
    **given: Unpack[SweepOptions],
) -> None:
    """Run BENCHMARK, or a workload, in every combination of the axes' values; interleaved, with shared seeds.

    To the target, axes may be what keeps the problem the same: runtime.* and what the definition leaves free. With
    --throughput or --serve anything may vary; a changed shape of data makes it synthetic. Shapes: data.num_tables,
    data.rows_per_table, data.lookups_per_table, data.row_scale, data.zipf_exponent, model.embedding_dim, model.mlp
    (512^3: three hidden layers of 512 in both MLPs), model.bottom_mlp and model.top_mlp (512-256-16).

    An interrupted sweep is completed by 'dlrmbench resume' on its folder.
    """
    from harness.config.seeds import draw_base_seed
    from harness.planning.scaling import refuse_unfittable
    from harness.planning.sweep import plan_sweep
    from harness.run_sets.folder import open_run_set
    from harness.run_sets.names import link_latest
    from harness.run_sets.prepare import num_runs_of, refuse_disturbed_environment, refuse_output
    from harness.run_sets.runner import RunRequest
    from harness.run_sets.sweep import prepare_sweep, resolve_sweep, start_sweep
    from reports.statistics.intervals import MIN_RUNS
    from reports.text.formatting import plural

    kind, options = asked_kind(given, timeout_s)
    overrides = collect_overrides(given)
    if is_served:
        kind = _served_kind(options, timeout_s)
        overrides += weights_override(weights)
    elif weights is not None:
        raise click.UsageError("--weights is what --serve serves; give that too.")
    if keep_weights and not kind.is_scored:
        raise click.UsageError("--keep-weights is for runs to the target; a measurement trains nothing whole.")
    if with_fit and kind.name != "quality":
        raise click.UsageError("--fit is of --quality SAMPLES; give that too.")
    if is_dry or with_fit:
        base, _, configs = resolve_sweep(
            kind, benchmark, overrides, axis_texts, given["name"], with_profile=with_profile
        )
    if with_fit:
        refuse_unfittable([config.workload for _, config in configs])
    if is_dry:
        num_runs = num_runs_of(kind, base, num_runs)
        _show_plan(plan_sweep(kind, options, configs, num_runs, given["data_root"]), form)
        return
    refuse_output(output)
    if strict_env:
        refuse_disturbed_environment(given["data_root"], output)
    base, axes, configurations = prepare_sweep(
        kind,
        benchmark,
        overrides,
        axis_texts,
        given["name"],
        given["data_root"],
        with_profile=with_profile,
        matmul=given["matmul"],
        quiet=quiet,
    )
    num_runs = num_runs_of(kind, base, num_runs)
    folder = start_sweep(
        axes,
        configurations,
        RunRequest(
            num_runs=num_runs,
            base_seed=draw_base_seed() if seed is None else seed,
            division=given["division"],
            timeout_s=timeout_s,
            kind=kind.name,
            options=kind.fit(options, [each.prepared.size for each in configurations if each.prepared is not None]),
            output=output,
            command=["dlrmbench", *sys.argv[1:]],
            keep_weights=keep_weights,
        ),
        with_profile=with_profile,
        with_fit=with_fit,
    )
    link_latest(folder)
    if not quiet:
        for part in sorted(folder.glob("*/extra/run_set.json"))[:1]:  # all were checked within seconds
            warn_of_system(open_run_set(part.parents[1])[1].preflight)
        each = f"{plural(num_runs, 'run')} each"
        few = "" if num_runs >= MIN_RUNS else f" (fewer than {MIN_RUNS}: no verdicts)"
        click.echo(f"{plural(len(configurations), 'configuration')}, {each}{few}, in {folder}", err=True)
    complete_and_show(folder, form=form, quiet=quiet)


def _served_kind(options: Mapping[str, int], timeout_s: float | None) -> "MeasurementKind":
    """Return what --serve measures. Raises UsageError beside another measurement, HarnessError without LoadGen."""
    from harness.measure.kinds import find_kind
    from harness.measure.serving.loadgen import require_loadgen

    if options or timeout_s is not None:
        raise click.UsageError("--serve is a measurement of its own; leave the others, and --timeout, out.")
    require_loadgen()
    return find_kind("serve")


def _show_plan(study: "StudyRecord", form: str) -> None:
    from reports.page.figures.study import study_blocks
    from reports.render.csv import render_csv
    from rules.records.codec import encode

    if form == "json":
        click.echo(encode(study), nl=False)
    elif form == "csv":
        (table,) = study.tables
        click.echo(render_csv([column.name for column in table.columns], table.rows), nl=False)
    else:
        show(study_blocks(study), form)


def progress_printer(*, quiet: bool) -> "OnRun":
    """Make what says on standard error whose run is next, and how long all that is left may take."""
    from reports.text.formatting import rough_duration

    def on_run(progress: "Progress") -> None:
        if not quiet:
            of = f"[{progress.number}/{progress.total}]"
            run = "" if progress.run_index is None else f", run {progress.run_index + 1}"
            left = "" if progress.left_s is None else f", about {rough_duration(progress.left_s)} left"
            click.echo(f"{of} {progress.label}{run}{left}", err=True)

    return on_run


def complete_and_show(folder: Path, *, form: str = "table", quiet: bool) -> None:
    """Run what is missing, then print the table and write the page; exits with the worst code of all."""
    from harness.run_sets.finish import write_folder_page
    from harness.run_sets.runner import resume_command
    from harness.run_sets.sweep import complete_sweep
    from reports.comparison.sweep import read_sweep_facts

    try:
        completed = complete_sweep(folder, quiet=quiet, on_run=progress_printer(quiet=quiet))
    except BaseException as error:
        if not isinstance(error, HarnessError):
            click.echo(f"Finished runs are kept. Complete the sweep with: {resume_command(folder)}", err=True)
        raise
    facts = read_sweep_facts(folder)
    _show(facts, form)
    page = write_folder_page(folder)
    if form == "table":
        click.echo(f"results  {folder}")
        click.echo(f"report   {page}")
    else:
        click.echo(f"report: {page}", err=True)
    click.get_current_context().exit(int(_exit_code(completed, facts)))


def _show(facts: "SweepFacts", form: str) -> None:
    from reports.page.sections.law import law_record
    from reports.page.sections.sweep import rows_as_records
    from reports.render.csv import render_csv
    from reports.views.measurement import sweep_blocks

    records = rows_as_records(facts)
    if form == "json":
        show_json(
            {
                "schema_version": 1,
                "name": facts.name,
                "mode": facts.mode,
                "configurations": records,
                "closing": facts.closing,
                **law_record(facts.law),
            }
        )
    elif form == "csv":
        click.echo(render_csv(list(records[0]), [record.values() for record in records]), nl=False)
    else:
        show(sweep_blocks(facts), form)


def _exit_code(sweep: "SweepRecord", facts: "SweepFacts") -> ExitCode:
    """Find the worst of all configurations' codes: one that failed, did not converge, or broke a rule."""
    from harness.run_sets.finish import exit_code_of_set, worst_of

    codes = [ExitCode(entry.failure.exit_code) for entry in sweep.configurations if entry.failure is not None]
    codes += [exit_code_of_set(row.facts) for row in facts.rows if row.facts is not None]
    codes += [ExitCode.INCONCLUSIVE] if facts.law is not None and facts.law.fitted is None else []
    return worst_of(codes)
