"""`profile`: where a step's time goes, and how far from this system's limits."""

import sys
from pathlib import Path
from typing import Unpack

import click

from harness.cli.options import BENCHMARK, QUIET, Configured, collect_overrides, configuration, output_option
from harness.cli.output import form_option, show
from harness.foundation.errors import ExitCode, HarnessError


@click.command()
@BENCHMARK
@configuration
@output_option("Folder of run sets, or a run set of the same configuration.")
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
    from harness.config.run_config import resolve
    from harness.run_sets.prepare import (
        prepare_data,
        refuse_impossible,
        refuse_too_large_batch,
        refuse_unprofilable,
    )
    from harness.run_sets.profile import find_or_start_set, profile_set
    from harness.run_sets.runner import RunRequest
    from reports.facts.records import read_record
    from reports.views.measurement import profile_blocks
    from rules.records.profile import ProfileRecord

    config = resolve(benchmark, collect_overrides(configured), configured["name"], derived_suffix="_profile")
    refuse_unprofilable(config.workload)
    refuse_impossible(config.workload)
    if trace is not None and not trace.absolute().parent.is_dir():
        raise HarnessError(f"--trace {trace}: there is no such folder; make it first.", ExitCode.USAGE)
    data_dir, num_threads = prepare_data(config.workload, configured["data_root"], quiet=quiet)
    refuse_too_large_batch(data_dir, config.workload)
    request = RunRequest(
        num_runs=1,
        base_seed=None,
        division=configured["division"],
        timeout_s=None,
        data_dir=data_dir,
        output=output,
        num_threads=num_threads,
        command=["dlrmbench", *sys.argv[1:]],
        kind="profile",
    )
    run_set, record = find_or_start_set(config, request)
    path = profile_set(run_set, record, num_steps=num_steps, trace=trace, on_progress=_be_silent if quiet else _say)
    if form == "json":
        click.echo(path.read_text(encoding="utf-8"), nl=False)
        return
    problems: list[str] = []
    profile = read_record(path, ProfileRecord, problems)
    if profile is None:
        raise HarnessError("; ".join(problems), ExitCode.INPUT)
    show(profile_blocks(profile), form)
    if form == "table":
        click.echo(f"\nfile   {path}" + (f"\ntrace  {trace}" if trace is not None else ""))


def _say(doing: str) -> None:
    click.echo(f"profile: {doing}", err=True)


def _be_silent(doing: str) -> None:
    """Where progress goes under --quiet."""
