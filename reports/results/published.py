"""Reads and makes tables of published MLPerf results: the shipped table, one from a file, or one made of scored
result sets."""

import re
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from reports.results.result import Result
from reports.text.formatting import printable
from rules.errors import InputError
from rules.records.codec import Damage, decode
from rules.records.kept.published import PublishedResult, PublishedTable

SHIPPED = Path(__file__).with_name("published.json")
WORD = "published"
"""Value of the option --with that asks for the shipped table of published MLPerf results; published:FILE asks for the
table in a file."""
OWNER = "mlcommons"
_REPOSITORY = re.compile(r"training_results_v\d{1,2}\.\d")
_NO_ACCELERATOR = ("", "n/a", "none", "-")


def load_table(path: Path | None = None) -> PublishedTable:
    """Read the table of published MLPerf results at `path`, or the shipped one. Raises InputError, which names the
    faulty field, if the table is not valid."""
    table = decode(SHIPPED if path is None else path, PublishedTable)
    if isinstance(table, Damage):
        raise InputError(f"{table}. Make it with 'dlrmbench score ROUND... --format published'.")
    return PublishedTable(results=tuple(map(_as_printable, table.results)))


def _as_printable(row: PublishedResult) -> PublishedResult:
    """Return a row of published results with each text as one visible line, since anyone may have written the
    table."""
    texts = ("benchmark", "submitter", "system", "accelerator", "availability", "repository")
    said = {name: printable(value) for name in texts if (value := getattr(row, name)) is not None}
    return replace(row, **said)


def asked_table(reference: str | None) -> PublishedTable | None:
    """Read the table of published results that 'published' or 'published:FILE' asks for; None for any other
    `reference`."""
    word, _, file = (reference or "").partition(":")
    if word != WORD:
        return None
    return load_table(Path(file) if file else None)


def make_published(sets: Sequence[Result]) -> tuple[PublishedTable, list[str]]:
    """Make the table of published results from the result sets of official benchmarks that have a score. Return also
    the reasons why other sets are left out."""
    rows, left_out = list[PublishedResult](), list[str]()
    for result in sets:
        found = _make_row(result)
        if isinstance(found, str):
            left_out.append(f"{printable(result.verdict.subject)}: {found}")
        else:
            rows.append(found)
    rows.sort(key=lambda row: (row.benchmark, [*map(int, row.round.split("."))], row.submitter, row.system))
    return PublishedTable(results=tuple(rows)), left_out


def _make_row(result: Result) -> PublishedResult | str:
    """Return the row of a result in a table of published results, or the reason why it has none."""
    score, judged, first = result.score, result.judged, result.first_run
    if result.standing != "published" or judged is None or first is None:
        return "no result of MLPerf's round"
    if score.score_s is None or not 0 < score.score_s < float("inf") or score.round is None:
        return printable(score.no_score_reason or "no score")
    if result.outcome not in ("valid", "invalid") or first.division not in ("closed", "open"):
        return "incomplete, or of no division"
    fields, found = dict(result.system.fields), judged.result_set
    number, accelerator = count_accelerators(result)
    return PublishedResult(
        benchmark=result.benchmark_name,
        round=score.round,
        submitter=_name(found.organization or fields.get("submitter") or first.organization),
        system=_name(found.system or fields.get("system_name") or first.platform),
        accelerator=accelerator,
        num_accelerators=number,
        num_nodes=_whole(fields.get("number_of_nodes")),
        division="closed" if first.division == "closed" else "open",
        availability=printable(fields.get("status", ""), 80),
        outcome="valid" if result.outcome == "valid" else "invalid",
        minutes=score.score_s / 60,
        rcp_factor=score.rcp_factor or 1.0,
        num_runs=len(score.runs),
        repository=find_repository(found.folder),
        logs={Path(run.path).name: run.log_sha256 for run in score.runs},
    )


def count_accelerators(result: Result) -> tuple[int | None, str | None]:
    """Return number (over all nodes) and name of a result's accelerators, from its system description; None if
    unknown."""
    fields = dict(result.system.fields)
    nodes, per_node = _whole(fields.get("number_of_nodes")), _whole(fields.get("accelerators_per_node"))
    name = fields.get("accelerator_model_name", "").strip()
    if per_node is None or name.lower() in _NO_ACCELERATOR:
        return None, None
    return per_node * nodes if nodes else None, _name(name)


def find_repository(folder: Path) -> str | None:
    """Return the GitHub repository of an MLPerf round's results, given a path inside a copy of the repository. The
    innermost folder of the path that has a repository's name decides; None if there is no such folder."""
    named = [part for part in folder.absolute().parts if _REPOSITORY.fullmatch(part)]
    return f"{OWNER}/{named[-1]}" if named else None


def _whole(text: str | None) -> int | None:
    digits = (text or "").strip()
    number = int(digits) if digits.isascii() and digits.isdecimal() and len(digits) < 10 else 0
    return number or None


def _name(text: str | None) -> str:
    return printable(text or "unknown", 150)
