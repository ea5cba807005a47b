"""Writing a report: results in, one file out."""

import errno
import math
import os
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec.structs import asdict

from reports.comparison.sweep import SweepFacts, read_sweep_facts
from reports.facts.facts import SetFacts, gather
from reports.facts.find import find_by_label
from reports.facts.measured_sets import MeasuredSet, find_measured
from reports.facts.profile import read_profiles
from reports.page.exports import export_csv, export_json, export_markdown
from reports.page.page import build_page
from reports.render.html import embed_json, render_html
from reports.tables.documents import SCHEMA_VERSION
from reports.tables.rows import run_members, set_row
from rules.records.kinds import IN_PROCESSES
from rules.records.profile import ProfileRecord
from rules.tree.inventory import take_inventory

# Of a run, what the page carries for programs.
_EMBEDDED = (
    "run", "attempt", "status", "counted", "reason", "seed", "started_ms", "time_to_train_s", "train_s", "eval_s",
    "overhead_s", "init_s", "samples_to_converge", "epochs_to_converge", "throughput_samples_per_s", "final_quality",
    "num_evaluations", "global_batch_size", "learning_rate", "peak_rss_bytes", "peak_device_bytes", "energy_j",
)  # fmt: skip
FORMATS = ("html", "json", "csv", "md")


@dataclass(frozen=True, kw_only=True, slots=True)
class Gathered:
    """Everything that a report shows: result sets, sweeps, profiles, and what was measured alone."""

    sets: tuple[SetFacts, ...]
    sweeps: tuple[SweepFacts, ...]
    profiles: tuple[ProfileRecord, ...]
    measured: tuple[MeasuredSet, ...]


def gather_everything(
    paths: Sequence[Path], *, second_opinion: bool = True, benchmark_file: Path | None = None
) -> Gathered:
    """Read and judge, once, what is at or below `paths`. Raises InputError where there is nothing to read."""
    inventories = [take_inventory(path) for path in paths]
    holding = [found for found in inventories if found.result_sets or not found.holds_measurements]
    sets = gather(holding, second_opinion=second_opinion, benchmark_file=benchmark_file)
    sweeps = tuple(read_sweep_facts(folder, known=sets) for found in inventories for folder in found.sweeps)
    swept = {folder.resolve() for found in inventories for folder in found.sweeps}
    profiles = read_profiles(_outside(swept, [folder for found in inventories for folder in found.profiles]))
    measured = (
        # Broken ones are left out of the page.
        find_measured(folder, kind, [])
        for kind in IN_PROCESSES
        for folder in _outside(swept, [place for found in inventories for place in found.measurements.get(kind, ())])
    )
    known = tuple(measurement for measurement in measured if measurement is not None)
    if not (sets or sweeps or profiles or known):
        for found in inventories:
            found.require_result_sets()
    return Gathered(sets=sets, sweeps=sweeps, profiles=profiles, measured=known)


def _outside(sweeps: set[Path], folders: Iterable[Path]) -> list[Path]:
    """The folders, each once, that are not in a sweep, whose table shows what they found."""
    distinct = {folder.resolve(): folder for folder in folders}
    return [folder for place, folder in distinct.items() if sweeps.isdisjoint(place.parents)]


def write_report(paths: Sequence[Path], output: Path, *, title: str | None = None) -> Path:
    """Render all result sets at or below `paths` as one HTML page at `output`; returns `output`.

    Nothing else is written, also not into the inputs. Raises InputError where there is nothing to read, OSError where
    `output` cannot be written.
    """
    return write_page(gather_everything(paths), output, title=title)


def write_page(gathered: Gathered, output: Path, *, title: str | None = None) -> Path:
    """Write what was gathered as one HTML page, which appears whole or not at all; returns `output`."""
    text = render_report(
        gathered.sets, title=title, sweeps=gathered.sweeps, profiles=gathered.profiles, measured=gathered.measured
    )
    return write_whole(output, text)


def render_report(
    sets: Sequence[SetFacts],
    *,
    output_format: str = "html",
    title: str | None = None,
    now: datetime | None = None,
    sweeps: Sequence[SweepFacts] = (),
    profiles: Sequence[ProfileRecord] = (),
    baseline: str | None = None,
    measured: Sequence[MeasuredSet] = (),
) -> str:
    """The report's text in one of FORMATS; `now` is the moment that the page names.

    `baseline` is the label of the configuration with which the others of its group are compared; InputError where
    there is none of that name. `measured` are measurements of throughput alone.
    """
    if output_format == "json":
        return export_json(sets)
    if output_format == "csv":
        return export_csv(sets)
    if output_format == "md":
        return export_markdown(sets)
    if output_format != "html":
        raise ValueError(f"format {output_format!r}: expected one of {', '.join(FORMATS)}.")
    page = build_page(
        sets,
        embed_json(page_data(sets)),
        title=title,
        now=now,
        sweeps=sweeps,
        profiles=profiles,
        baseline=find_baseline(sets, baseline),
        measured=measured,
    )
    return render_html(page)


def find_baseline(sets: Sequence[SetFacts], name: str | None) -> SetFacts | None:
    """As `find_by_label`; None where no name is given."""
    return None if name is None else find_by_label(sets, name, "--baseline")


def page_data(sets: Sequence[SetFacts]) -> dict[str, Any]:
    """What the page carries for programs: every configuration's row of the tables, and its runs' as a list per
    quantity, or one value where all runs have the same.

    Evaluations, digests and what all runs of a configuration have in common are left out, because the page holds
    them already and a second copy would be large; `report --format json` has everything.
    """
    configurations = []
    for facts in sets:
        runs = run_members(facts)
        columns = {name: [_short(getattr(run, name)) for run in runs] for name in _EMBEDDED}
        shared = {name: values[0] if len(set(values)) == 1 else values for name, values in columns.items()}
        row = {name: _short(value) for name, value in asdict(set_row(facts)).items()}
        configurations.append({**row, "runs": shared})
    return {"schema_version": SCHEMA_VERSION, "configurations": configurations}


def _short(value: Any) -> Any:
    """Numbers with the digits that a clock of 1 ms can fill; whole ones are exact."""
    if not isinstance(value, float) or not math.isfinite(value):
        return value
    return int(value) if value.is_integer() else float(f"{value:.7g}")


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
