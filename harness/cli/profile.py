"""`profile`: where a step's time goes, and how far from this system's limits."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click

from harness.cli.options import BENCHMARK, Configured, collect_overrides, configuration
from harness.cli.table import render_table, terminal_width, wrap
from harness.foundation.errors import ExitCode, HarnessError

if TYPE_CHECKING:
    from reports.document.blocks import Table
    from reports.facts.profile_record import ProfileRecord


@click.command()
@BENCHMARK
@configuration
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), default=Path("results"), show_default=True,
    envvar="DLRMBENCH_OUTPUT", help="Folder of run sets, or a run set of the same configuration.",
)  # fmt: skip
@click.option(
    "--steps", "num_steps", type=click.IntRange(min=1), help="Steps to time.  [default: about 12 s of them]"
)
@click.option(
    "--trace", type=click.Path(path_type=Path), metavar="FILE",
    help="Write a trace for Perfetto or chrome://tracing; gzipped where FILE ends in .gz.",
)  # fmt: skip
@click.option(
    "--format", "output_format", type=click.Choice(["table", "json", "md"]), default="table", show_default=True,
    help="Output form.",
)  # fmt: skip
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
def profile(
    benchmark: str,
    output: Path,
    num_steps: int | None,
    trace: Path | None,
    output_format: str,
    quiet: bool,
    **configured: Unpack[Configured],
) -> None:
    """Measure this system's ceilings and the phases of BENCHMARK's training step, and hold one against the other.

    Nothing is trained to its target and nothing is scored; any value may be changed with --set.
    """
    from harness.config.run_config import resolve
    from harness.foundation.files import read_json
    from harness.run_sets.prepare import (
        prepare_data,
        refuse_impossible,
        refuse_too_large_batch,
        refuse_unprofilable,
    )
    from harness.run_sets.profile import find_or_start_set, profile_set
    from harness.run_sets.runner import RunRequest

    config = resolve(benchmark, collect_overrides(configured), configured["name"], derived_suffix="_profile")
    refuse_unprofilable(config.workload.runtime.implementation)
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
        throughput_steps=None,
        data_dir=data_dir,
        output=output,
        num_threads=num_threads,
        command=["dlrmbench", *sys.argv[1:]],
        is_profile=True,
    )
    run_set, content = find_or_start_set(config, request)
    path = profile_set(run_set, content, num_steps=num_steps, trace=trace, on_progress=_be_silent if quiet else _say)
    if output_format == "json":
        click.echo(path.read_text(encoding="utf-8"), nl=False)
        return
    from reports.facts.profile_record import parse_profile

    record = parse_profile(read_json(path))
    click.echo(render(record, _markdown if output_format == "md" else _plain))
    if output_format == "table":
        click.echo(f"\nfile   {path}" + (f"\ntrace  {trace}" if trace is not None else ""))


def _say(doing: str) -> None:
    click.echo(f"profile: {doing}", err=True)


def _be_silent(doing: str) -> None:
    """Where progress goes under --quiet."""


def render(record: "ProfileRecord", write: "Callable[[Table], str]") -> str:
    """The whole profile as text: what was found, its tables, its conditions."""
    from reports.page.figures.profile import (
        ceilings_table,
        conditions,
        evaluation_sentence,
        headline,
        limits_table,
        operators_table,
        phases_table,
    )

    parts = [
        _wrapped(f"{record.benchmark}: {headline(record)}"),
        write(phases_table(record)),
        write(limits_table(record)),
        _wrapped(evaluation_sentence(record)),
        write(ceilings_table(record)),
        write(operators_table(record)),
        "\n".join(_wrapped(f"- {line}") for line in conditions(record)),
    ]
    return "\n\n".join(parts)


def _wrapped(text: str) -> str:
    return "\n".join(wrap(text, terminal_width()))


def _plain(table: "Table") -> str:
    # The first column names the row and is never broken; the last one gives way.
    align = "L" + "".join("r" if column.is_number else "l" for column in table.columns[1:])
    rows = [[cell.text for cell in row] for row in table.rows]
    names = [column.name for column in table.columns]
    width = terminal_width()
    caption = "\n".join(wrap(table.caption, width))
    return f"{caption}\n" + render_table(names, rows, align, width=width)


def _markdown(table: "Table") -> str:
    names = [_escape(column.name) for column in table.columns]
    rule = ["--:" if column.is_number else ":--" for column in table.columns]
    rows = [[_escape(cell.text) for cell in row] for row in table.rows]
    return f"{table.caption}\n\n" + "\n".join(f"| {' | '.join(row)} |" for row in [names, rule, *rows])


def _escape(text: str) -> str:
    """Text without Markdown's and HTML's meaning."""
    for char in "\\`*_[]|#":
        text = text.replace(char, f"\\{char}")
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
