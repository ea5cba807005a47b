"""`profile`: where a step's time goes, and how far from this system's limits."""

import sys
from pathlib import Path
from typing import Unpack

import click

from harness.cli.shared.options import (
    BENCHMARK,
    QUIET,
    Configured,
    collect_overrides,
    configuration,
    output_option,
    warn_of_system,
)
from harness.cli.shared.output import form_option, show
from harness.foundation.errors import HarnessError


@click.command()
@BENCHMARK
@configuration
@output_option("Folder in which the profile's own folder is made, or a run set of the same configuration.")
@click.option(
    "--steps", "num_steps", type=click.IntRange(min=1), help="Steps to time.  [default: about 12 s of them]"
)
@click.option(
    "--trace", type=click.Path(path_type=Path), metavar="FILE",
    help="Write a trace for Perfetto or chrome://tracing; gzipped where FILE ends in .gz.",
)  # fmt: skip
@form_option("table", "json", "md")
@QUIET
def profile(
    benchmark: str,
    output: Path,
    num_steps: int | None,
    trace: Path | None,
    form: str,
    quiet: bool,
    **configured: Unpack[Configured],
) -> None:
    """Measure this system's ceilings and the phases of BENCHMARK's training step, and hold one against the other.

    Nothing is trained to its target and nothing is scored; any value may be changed with --set.
    """
    from harness.foundation.files import read_record
    from harness.measure.profile.job import KIND
    from harness.run_sets.prepare import prepare, refuse_impossible, refuse_output, refuse_unprofilable, resolve_for
    from harness.run_sets.profile import find_or_start_set, profile_set
    from harness.run_sets.runner import RunRequest
    from harness.system.preflight import run_checks
    from reports.views.measurement import profile_blocks
    from rules.records.profile import ProfileRecord

    config = resolve_for(KIND, benchmark, collect_overrides(configured), configured["name"])
    refuse_unprofilable(config.workload)
    refuse_impossible(config.workload)
    refuse_output(output)
    if trace is not None and not trace.absolute().parent.is_dir():
        raise HarnessError(f"--trace {trace}: there is no such folder; make it first.")
    prepared = prepare(config, configured["data_root"], quiet=quiet)
    request = RunRequest(
        num_runs=1,
        base_seed=None,
        division=configured["division"],
        timeout_s=None,
        output=output,
        command=["dlrmbench", *sys.argv[1:]],
        kind=KIND.name,
        quiet=quiet,
    )

    def say(doing: str) -> None:
        if not quiet:
            click.echo(f"profile: {doing}", err=True)

    run_set, record = find_or_start_set(config, prepared, request)
    if not quiet:
        warn_of_system(run_checks(prepared.data_dir, output))
    path = profile_set(run_set, record, num_steps=num_steps, trace=trace, on_progress=say)
    if form == "json":
        click.echo(path.read_text(encoding="utf-8"), nl=False)
        return
    show(profile_blocks(read_record(path, ProfileRecord)), form)
    if form == "table":
        click.echo(f"\nfile   {path}" + (f"\ntrace  {trace}" if trace is not None else ""))
