"""How `history` shows past run sets: one line each, newest first."""

from collections.abc import Sequence

import click

from harness.cli.escaping import markdown_safe
from harness.cli.table import printable, render_table
from reports.comparison.history import history_frame
from reports.comparison.records import PastSet
from reports.tables.columns import frame_csv
from reports.text.formatting import duration, epoch_ms, si, utc

_COLUMNS = (
    "when (UTC)",
    "benchmark",
    "name, config",
    "outcome",
    "runs",
    "score",
    "samples/s",
    "system",
    "code",
    "folder",
)
_ABOVE = 7
"""Columns of the first line of a set; the long ones stand below it."""


def echo_history(past: Sequence[PastSet], num_found: int) -> None:
    if not past:
        click.echo("No run sets here.")
        return
    rows = [_row(one) for one in past]
    lines = render_table(_COLUMNS[:_ABOVE], [row[:_ABOVE] for row in rows], "LLLLrrr").split("\n")
    click.echo("\n".join(lines[:2]))
    for one, row, line in zip(past, rows, lines[2:], strict=True):
        click.echo(line)
        click.echo(f"    {row[-1]}")
        told = [f"on {row[7]}" if row[7] else None, f"by dlrmbench {row[8]}" if row[8] else None]
        click.echo("    " + "; ".join(text for text in (*told, printable(one.problem or "")) if text))
    if len(past) < num_found:
        click.echo(f"{len(past)} of {num_found} shown; --limit shows more.")


def history_csv(past: Sequence[PastSet]) -> str:
    """One row per set, every field."""
    return frame_csv(history_frame(past))


def history_markdown(past: Sequence[PastSet]) -> str:
    lines = ["| " + " | ".join(_COLUMNS) + " |", "|" + "---|" * len(_COLUMNS)]
    lines += [
        "| " + " | ".join("-" if cell is None else markdown_safe(cell) for cell in _row(one)) + " |" for one in past
    ]
    return "\n".join(lines)


def _row(one: PastSet) -> list[str | None]:
    done = "-" if one.num_done is None else str(one.num_done)
    outcome = one.outcome if one.kind == "runs" else one.kind
    moment = epoch_ms(one.created_utc)
    return [
        None if moment is None else utc(moment).removesuffix(" UTC").rpartition(":")[0],
        one.benchmark,
        " ".join(word for word in (one.name, one.config_digest) if word) or None,
        outcome,
        f"{done}/{'-' if one.num_runs is None else one.num_runs}",
        None if one.score_s is None else duration(one.score_s),
        None if one.throughput_samples_per_s is None else si(one.throughput_samples_per_s),
        one.system,
        " ".join(word for word in (one.harness_version, one.commit) if word) or None,
        one.folder,
    ]
