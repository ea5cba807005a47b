"""Writing a report: results in, one file out."""

import errno
import json
import os
import secrets
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from reports.exports import export_csv, export_json, export_markdown
from reports.facts import SetFacts, gather
from reports.page import build_page
from reports.render import embed_json, finite, render_html
from reports.sweep import SweepFacts, find_sweeps, read_sweep_facts
from rules.errors import InputError

FORMATS = ("html", "json", "csv", "md")


def write_report(paths: Sequence[Path], output: Path, *, title: str | None = None) -> Path:
    """Render all result sets at or below `paths` as one HTML page at `output`; returns `output`.

    The page appears whole or not at all. Nothing else is written, also not into the inputs. Raises InputError
    where there is nothing to read, OSError where `output` cannot be written.
    """
    sweeps = gather_sweeps(paths)
    return write_whole(output, render_report(gather_sets(paths, sweeps), title=title, sweeps=sweeps))


def gather_sweeps(paths: Sequence[Path]) -> tuple[SweepFacts, ...]:
    """Every sweep at or below `paths`."""
    return tuple(read_sweep_facts(folder) for path in paths for folder in find_sweeps(path))


def gather_sets(
    paths: Sequence[Path], sweeps: Sequence[SweepFacts], *, second_opinion: bool = True
) -> tuple[SetFacts, ...]:
    """As `gather`; no set is needed where there is a sweep, because one of throughput has none."""
    try:
        return gather(paths, second_opinion=second_opinion)
    except InputError:
        if sweeps:
            return ()
        raise


def render_report(
    sets: Sequence[SetFacts],
    *,
    output_format: str = "html",
    title: str | None = None,
    now: datetime | None = None,
    sweeps: Sequence[SweepFacts] = (),
) -> str:
    """The report's text in one of FORMATS; `now` is the moment that the page names."""
    if output_format == "json":
        return json.dumps(finite(export_json(sets)), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    if output_format == "csv":
        return export_csv(sets)
    if output_format == "md":
        return export_markdown(sets)
    if output_format != "html":
        raise ValueError(f"format {output_format!r}: expected one of {', '.join(FORMATS)}.")
    return render_html(
        build_page(sets, embed_json(_condensed(export_json(sets))), title=title, now=now, sweeps=sweeps)
    )


def _condensed(document: dict[str, Any]) -> dict[str, Any]:
    """The document for the page: a list per quantity over the runs, or one value where all runs have the same.

    Evaluations and paths are left out, because the page's tables hold them, and a second copy would be large.
    """
    configurations = []
    for one in document["configurations"]:
        columns = {
            key: [run[key] for run in one["runs"]] for key in one["runs"][0] if key not in ("evaluations", "path")
        }
        runs = {key: values[0] if len(set(values)) == 1 else values for key, values in columns.items()}
        configurations.append({**one, "runs": runs})
    return {**document, "configurations": configurations}


def write_whole(output: Path, text: str) -> Path:
    """Write beside `output` and rename, so that a reader never sees half a file."""
    if not output.parent.is_dir():
        raise FileNotFoundError(
            errno.ENOENT, "no such folder; make it first, or give another output", str(output.parent)
        )
    draft = output.with_name(f".{output.name}.{secrets.token_hex(4)}.partial")
    try:
        with draft.open("x", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(output)
    finally:
        draft.unlink(missing_ok=True)
    return output
