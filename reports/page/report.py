"""Writes a report on results as one file: HTML, JSON, CSV or text."""

import errno
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec import to_builtins
from msgspec.structs import asdict

from reports.page.content import ReportContent
from reports.page.exports import export_csv, export_json, result_blocks
from reports.page.figures.detail import detailed
from reports.page.page import build_page, comparable_groups, other_sections
from reports.page.sections.measured import measured_section
from reports.render.forms import FORMS as BLOCK_FORMS
from reports.render.html import embed_json, render_html
from reports.results.logs import Order, in_order
from reports.results.result import Result
from reports.tables.documents import SCHEMA_VERSION
from reports.tables.rows import run_members, set_row
from reports.text.atomic_write import draft_file, replace_file, write_new
from rules.records.study import StudyRecord

PAGE_NAME = "report.html"
"""File name of the HTML page in a folder of results."""
# Fields of a run in the data that the page carries for programs.
_EMBEDDED = (
    "run", "attempt", "status", "counted", "reason", "seed", "started_ms", "time_to_train_s", "train_s", "eval_s",
    "overhead_s", "init_s", "samples_to_converge", "epochs_to_converge", "throughput_samples_per_s", "final_quality",
    "num_evaluations", "global_batch_size", "learning_rate", "peak_rss_bytes", "peak_device_bytes", "energy_j",
)  # fmt: skip
_EXPORTS: Mapping[str, Callable[[Sequence[Result], Sequence[Result]], str]] = {
    "json": export_json,
    "csv": export_csv,
}
FORMATS = ("html", *_EXPORTS, *BLOCK_FORMS)


def write_page(gathered: ReportContent, folder: Path) -> Path:
    """Write the HTML page into a folder of results, completely or not at all, replacing any file of that name."""
    return write_unnamed(folder / PAGE_NAME, render_report(gathered))


def render_report(
    gathered: ReportContent,
    *,
    output_format: str = "html",
    title: str | None = None,
    now: datetime | None = None,
    baseline: Result | None = None,
    order: Order = "files",
    is_brief: bool = False,
) -> str:
    """Return the report's text in one of FORMATS; JSON and CSV hold only result sets and measurements.

    `now` is the time that the page prints. `baseline` is the configuration with which the others of its group are
    compared. `order` is the order of configurations in HTML and in other output made of blocks. With `is_brief` the
    page has only what a reader needs to decide: the answer, the machine and the command, the differences, and every
    run.
    """
    if output_format not in FORMATS:
        raise ValueError(f"format {output_format!r}: expected one of {', '.join(FORMATS)}.")
    if output_format in _EXPORTS:
        return _EXPORTS[output_format](gathered.sets, gathered.all_measured)
    if output_format in BLOCK_FORMS:
        sweeps, profiles, studies = other_sections(gathered)
        measured = map(measured_section, comparable_groups(gathered.measured))
        of_studies = (section for _, section in studies)
        blocks = result_blocks(gathered.sets, order, (*sweeps, *profiles, *measured, *of_studies))
        return BLOCK_FORMS[output_format](blocks) + "\n"
    data = embed_json(page_data(gathered.sets, order, gathered.studies))
    return render_html(
        build_page(gathered, data, title=title, now=now, baseline=baseline, order=order, is_brief=is_brief)
    )


def page_data(sets: Sequence[Result], order: Order = "files", studies: Sequence[StudyRecord] = ()) -> dict[str, Any]:
    """Return the data that the page embeds for programs. Every configuration has its table row; a configuration whose
    runs the page shows has its runs as well. Studies are embedded whole. To save space, tables are stored by column:
    one list per quantity, or a single value if all values of the quantity are equal.

    Evaluations, digests and what all runs of a configuration have in common are left out, because the page holds them
    already and a second copy would be large; `report --format json` has everything.
    """
    groups = (in_order(group, order) for group in comparable_groups(sets))
    shown = {result.index for group in groups for result in detailed(group)}
    rows = [{name: _short(value) for name, value in asdict(set_row(result)).items()} for result in sets]
    configurations = []
    for result, row in zip(sets, rows, strict=True):
        if result.index in shown:
            runs = [{name: _short(getattr(run, name)) for name in _EMBEDDED} for run in run_members(result)]
            configurations.append({**row, "runs": _columns(runs, _EMBEDDED)})
    data: dict[str, Any] = {"schema_version": SCHEMA_VERSION, "configurations": configurations}
    if others := [row for result, row in zip(sets, rows, strict=True) if result.index not in shown]:
        data["others"] = _columns(others, list(others[0]))
    if studies:
        data["studies"] = [to_builtins(study) for study in studies]
    return data


def _columns(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> dict[str, Any]:
    """Return table rows as one list per quantity in `names`, or as a single value where all rows have the same
    value."""
    columns = {name: [row[name] for row in rows] for name in names}
    return {name: values[0] if len(set(values)) == 1 else values for name, values in columns.items()}


def _short(value: Any) -> Any:
    """Return a number of seconds rounded to the digits that a clock of 1 ms can resolve; whole numbers stay exact."""
    if not isinstance(value, float) or not math.isfinite(value):
        return value
    return int(value) if value.is_integer() else float(f"{value:.7g}")


def write_whole(output: Path, text: str) -> Path:
    """Write text to a file that a user named, so that no reader sees half of the text. A link is followed; a device
    or a pipe is written to. Returns the path. Raises FileNotFoundError where the file's folder does not exist."""
    if not output.parent.is_dir():
        raise FileNotFoundError(
            errno.ENOENT, "no such folder; make it first, or give another output", str(output.parent)
        )
    with draft_file(output) as draft:
        write_new(draft, text, errors="backslashreplace")
    return output


def write_unnamed(output: Path, text: str) -> Path:
    """Write text to a file whose name no user gave, so that no reader sees half of the text. A link or pipe that has
    the file's name is replaced, not followed, since anyone may have put it there. Returns the path. Raises OSError if
    the file cannot be written, for example because a folder has its name."""
    with replace_file(output) as draft:
        write_new(draft, text, errors="backslashreplace")
    return output
