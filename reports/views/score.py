"""Makes the output of scores as blocks, rows and documents: the Olympic mean with its uncertainty, and the factors of
the time to train (samples to converge, throughput, overhead)."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from reports.comparison.standing import TOLERANCE, find_standings, strip_text
from reports.document.blocks import Block, Cell, facts_part, table_of
from reports.document.findings import broken_rules
from reports.facts.checkpoints import checkpoint_words, read_checkpoints
from reports.parts.score import ENERGY, EPOCHS, FACTS, describe_score, record_disturbed, score_facts, time_fact
from reports.render.csv import render_csv
from reports.results.result import Result
from reports.tables.columns import columns_of, shared_members
from reports.tables.scores import BesideRow, RunDocument, ScoreRecord
from reports.text.formatting import plural
from rules.checks.rule import SEVERITIES


def score_blocks(records: Sequence[ScoreRecord]) -> tuple[Block, ...]:
    """Return one table of scores with a row per result set; a column without a value for any set is left out."""
    told = [(record, score_facts(record)) for record in records]
    used = [name for name in FACTS if name != EPOCHS and any(name in facts for _, facts in told)]
    title = ("result set", lambda row: Cell(text=_problem(row[0]), sub=row[0].path))
    columns = [(name, lambda row, name=name: row[1][name].line if name in row[1] else "") for name in used]
    return (replace(table_of(told, (title, *columns), id_="scores"), layout="records"),)


def finished_document(result: Result, system: str, folder: Path, page: Path) -> RunDocument:
    """Return the JSON document of a result set that was just completed: its score, folder, page, and comparisons with
    reference systems."""
    score = shared_members(describe_score(result), ScoreRecord)
    beside = tuple(
        BesideRow(
            system=each.system,
            machine=each.machine,
            told=each.told,
            ratio=each.ratio,
            tolerance=TOLERANCE,
            notes=each.notes,
        )
        for each in find_standings(result)
    )
    return RunDocument(**score | {"system": system}, folder=str(folder), report=str(page), beside=beside)


def finished_blocks(result: Result, system: str, folder: Path, page: Path) -> tuple[Block, ...]:
    """Return the score of a result set that was just completed in `folder`, with its verdict, folder and page, as
    blocks."""
    record = describe_score(result)
    counts = ", ".join(plural(result.verdict.count(severity), severity) for severity in SEVERITIES[:2])
    shown = {name: fact.line for name, fact in score_facts(record).items()}
    rows = {
        "verdict": f"{result.verdict.outcome.upper()}: {counts}{result.verdict.own_code}{record_disturbed(record)}",
        **{f"{severity}s": broken_rules(result.verdict.findings, severity) for severity in SEVERITIES[:2]},
        "runs": shown["runs"],
        "time to train": time_fact(result).line,
        **{name: shown.get(name, "") for name in ("interval", "samples to converge", "throughput")},
        "note": "the machine was noisy, see 'dlrmbench doctor'" if record_disturbed(record) else "",
        "evaluation, overhead": shown.get("evaluation, overhead", ""),
        "detectable difference": shown.get("detectable difference", ""),
        **({ENERGY: shown[ENERGY]} if ENERGY in shown else {}),
        **({"checkpoints": words} if (words := checkpoint_words(read_checkpoints([result]))) else {}),
        **standing_facts(result),
        "results": str(folder),
        "report": str(page),
    }
    return (facts_part(f"{record.benchmark} on {system}", rows.items()),)


def standing_facts(result: Result) -> dict[str, str]:
    """Return a line on a result's speed against each reference system that measured the same configuration, and a
    text chart of all; empty without such a system."""
    standings = find_standings(result)
    facts = {f"beside {standing.system}": standing.words for standing in standings}
    return facts | ({"strip": strip_text(standings)} if standings else {})


def _problem(record: ScoreRecord) -> str:
    """Return a score's benchmark and round: 'dlrm_dcnv2, round 5.0'."""
    return f"{record.benchmark or 'unknown benchmark'}{', round ' + record.round if record.round else ''}"


def scores_csv(records: Sequence[ScoreRecord]) -> str:
    """Return scores as CSV with one row per result set, numbers at full precision: all fields of the score but the
    runs."""
    names = [column.name for column in columns_of(ScoreRecord)]
    return render_csv(names, ([getattr(record, name) for name in names] for record in records))
