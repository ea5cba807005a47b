"""A score: the Olympic mean with its uncertainty, and the factors that it is made of; as values, and as blocks."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from reports.comparison.factor import overhead_share
from reports.comparison.noise import describe_sets
from reports.document.blocks import Block, Cell, facts_part, table_of
from reports.facts.checkpoints import checkpoint_words, read_checkpoints
from reports.facts.noise import Smallest
from reports.parts.cost import cost_text, cost_to_train
from reports.parts.noise import disturbed_words, smallest_words, variation_text
from reports.render.csv import render_csv
from reports.results.logs import make_result, unique_labels
from reports.results.records import read_set_records
from reports.results.resolution import mean_step, samples_step, smoothed_samples
from reports.results.result import Result, Standing, overhead_ratio
from reports.statistics.intervals import MIN_RUNS, log_summary
from reports.tables.columns import columns_of, shared_members
from reports.tables.records import RunRow, SetMember, SetRow
from reports.tables.scores import RunDocument, ScoreRecord
from reports.text.formatting import count, duration, percent, plural, quality, throughput_text
from rules.checks.rule import SEVERITIES
from rules.checks.subject import JudgedSet
from rules.logs import keys
from rules.logs.text import printable
from rules.scoring.results import RunResult

OWN = "not an MLPerf result: a benchmark of its own"
_VERIFICATION: dict[Standing, str | None] = {
    "own": OWN,
    "unknown": OWN,
    "unverified": "unverified: result not verified by MLCommons Association",
    "published": "verification by MLCommons is not known here",
}


def describe_score(result: Result) -> ScoreRecord:
    """Describe one set as `describe_scores` does several."""
    (record,) = describe_scores([result])
    return record


def describe_scores(sets: Sequence[Result]) -> tuple[ScoreRecord, ...]:
    """Describe sets by their rows in the tables and what only a score says; the cost where a price is known."""
    rows = describe_sets(sets).configurations
    return tuple(_describe(result, row) for result, row in zip(sets, rows, strict=True))


def score_sets(judged: Sequence[JudgedSet], price_per_hour: float | None = None) -> tuple[ScoreRecord, ...]:
    """Describe judged sets as `describe_scores` does; what a system costs adds the cost to train."""
    labels = unique_labels([found.result_set for found in judged])
    sets = [
        make_result(index, label, found, read_set_records(found.result_set, found.files))
        for index, (label, found) in enumerate(zip(labels, judged, strict=True))
    ]
    return describe_scores([replace(result, price_per_hour=price_per_hour) for result in sets])


def _describe(result: Result, row: SetMember) -> ScoreRecord:
    score, converged = result.score, [run.log for run in result.converged]
    until = result.asked.until if result.asked else None
    return ScoreRecord(
        **shared_members(row, SetRow),
        path=printable(result.verdict.subject),
        verification=None if score.benchmark is None else _VERIFICATION[result.standing],
        grown_to=until.width if until is not None else None,
        grown_after=result.growth.after if result.growth is not None else None,
        no_interval_reason=_why_no_interval(result),
        **_mean("samples_to_converge", "samples", [run.samples_to_converge for run in converged]),
        samples_step=mean_step(samples_step, converged) or None,
        **_mean("samples_to_converge_smoothed", "smoothed", _smoothed(converged)),
        speed_cv=result.speed_cv,
        **_mean("overhead_s", "overhead", [run.overhead_s for run in converged]),
        **_mean("overhead_ratio", "overhead_ratio", [overhead_ratio(run) for run in converged]),
        open_final_quality=score.final_quality if row.division == keys.OPEN else None,
        rcp_reason=score.rcp_reason,
        price_per_hour=result.price_per_hour,
        cost_to_train=cost_to_train(score.olympic_mean_s, result.price_per_hour),
        runs=tuple(RunRow(**shared_members(run, RunRow)) for run in row.runs),
    )


def _why_no_interval(result: Result) -> str | None:
    """Why an Olympic mean has no interval; None where it has one, or where there is no mean either."""
    if result.interval is not None or result.score.olympic_mean_s is None:
        return None
    if len(result.converged) < len(result.runs):
        return "a run did not converge, and an infinite time leaves no mean"
    return f"{plural(len(result.runs), 'run')}, and an interval takes {MIN_RUNS}"


def _smoothed(converged: Sequence[RunResult]) -> list[float | None]:
    """None where a run has no smoothed crossing: a mean of the others would be one of chosen runs."""
    values = [smoothed_samples(run) for run in converged]
    return [] if None in values else values


def _mean(name: str, spread: str, values: Sequence[float | None]) -> dict[str, Any]:
    """The members of a factor: its geometric mean by `name`, and how much it varies."""
    found = log_summary(values)
    return {} if found is None else {name: found.geometric_mean, f"{spread}_cv": found.coefficient_of_variation}


def score_blocks(records: Sequence[ScoreRecord]) -> tuple[Block, ...]:
    """One table with a row per set; what no set has is left out."""
    used = [(name, show) for name, show in _SHOWN if any(show(record) for record in records)]
    title = ("result set", lambda record: Cell(text=_problem(record), sub=record.path))
    return (replace(table_of(records, (title, *used), id_="scores"), layout="records"),)


def finished_document(result: Result, system: str, folder: Path, page: Path) -> RunDocument:
    """Describe what `finished_blocks` shows: where everything is, and what `describe_score` says."""
    score = shared_members(describe_score(result), ScoreRecord)
    return RunDocument(**score | {"system": system}, folder=str(folder), report=str(page))


def finished_blocks(result: Result, system: str, folder: Path, page: Path) -> tuple[Block, ...]:
    """The score of a set that was just completed in `folder`, with its verdict and where everything is."""
    record = describe_score(result)
    counts = ", ".join(plural(result.verdict.count(severity), severity) for severity in SEVERITIES[:2])
    shown = {name: show(record) for name, show in _SHOWN}
    if record.score_s is None:
        rows = {"score": f"none: {record.no_score_reason or 'the runs do not make one'}"}
    else:
        first = result.score.num_runs_scored
        of = f" of the first {first} runs" if first < len(result.runs) else ""
        rows = {"time to train": f"{duration(record.score_s)} (measured; Olympic mean{of})"}
        rows |= {name: shown[name] for name in ("interval", "samples to converge", "throughput")}
        if disturbed_words(record.speed_cv):
            rows["note"] = "something disturbed the runs, see 'dlrmbench doctor'"
        rows["evaluation, overhead"] = shown["evaluation, overhead"]
    rows = {
        "verdict": f"{result.verdict.outcome.upper()}: {counts}{_remarks(result)}",
        "runs": shown["runs"],
        **rows,
        "smallest difference": shown["smallest difference"],
        **({"checkpoints": words} if (words := checkpoint_words(read_checkpoints([result]))) else {}),
        "results": str(folder),
        "report": str(page),
    }
    return (facts_part(f"{record.benchmark} on {system}", rows.items()),)


def _remarks(result: Result) -> str:
    return f"{result.verdict.own_code}{disturbed_words(result.speed_cv)}"


def _problem(record: ScoreRecord) -> str:
    """'dlrm_dcnv2, round 5.0'."""
    return f"{record.benchmark or 'unknown benchmark'}{', round ' + record.round if record.round else ''}"


def _score(record: ScoreRecord) -> str:
    if record.score_s is None:
        return f"none: {record.no_score_reason}"
    shown = duration(record.score_s)
    if record.status != "official":
        return shown
    minutes = f"{record.score_s / 60:.6f} min"  # as MLCommons publishes it
    return minutes if shown.endswith(" min") else f"{shown} = {minutes}"


def _verdict(record: ScoreRecord) -> str:
    disturbed = disturbed_words(record.speed_cv) if record.score_s is not None else ""
    if record.outcome == "invalid":
        return f"INVALID: {plural(record.num_errors or 0, 'error')}; see 'dlrmbench check'{disturbed}"
    return f"{(record.outcome or '').upper()}{disturbed}" if disturbed else ""


def _olympic_mean(record: ScoreRecord) -> str:
    if record.olympic_mean_s is None:
        return ""
    paths = [run.path.replace("\\", "/") for run in record.runs if run.counted == "dropped"]
    dropped = ", ".join(printable(path.rsplit("/", 1)[-1]) for path in paths)
    return f"{duration(record.olympic_mean_s)}; dropped: {dropped}"


def _bounds(record: ScoreRecord) -> str:
    if record.low_s is None:
        return f"none: {record.no_interval_reason}" if record.no_interval_reason else ""
    low, high = duration(record.low_s), duration(record.high_s)
    of = f" of {record.num_runs} runs" if (record.num_runs or 0) > (record.num_runs_required or 0) else ""
    if record.grown_to is not None:
        width, after = percent(record.grown_to), record.grown_after
        short = f", not known to {width}" if after is None else f", known to {width} after {after}"
        of += f" grown to {width}" if after == record.num_runs else short
    return f"{low} to {high} (geometric mean{of}, at least {percent(record.confidence, 0)})"


def _shown_mean(name: str, spread: str, show: Callable[[float | None], str]) -> Callable[[ScoreRecord], str]:
    """Make what shows a factor: its geometric mean over the runs and how much it varies."""

    def text(record: ScoreRecord) -> str:
        value, variation = getattr(record, name), getattr(record, spread)
        if value is None:
            return ""
        step = record.samples_step if name == "samples_to_converge" else None
        number = record.num_converged or 0
        known = variation is not None and number > 1
        varies = f", CV {variation_text(variation, number, step)}" if known else ""
        return f"{show(value)} (geometric mean{varies})"

    return text


def _overhead(record: ScoreRecord) -> str:
    ratio = record.overhead_ratio
    return "" if ratio is None else f"{overhead_share(ratio)} of the time to train"


def _smallest(record: ScoreRecord) -> str:
    """What a comparison with such a set can show, in one short line."""
    if (number := record.num_converged or 0) < MIN_RUNS:
        return f"not known: takes {MIN_RUNS} runs that reach the target, has {number}"
    apart, in_turns = record.smallest_time_apart, record.smallest_time_in_turns
    if apart is None and in_turns is None:
        return ""
    return smallest_words(
        Smallest(
            apart=math.inf if apart is None else apart,
            in_turns=in_turns,
            in_turns_low=record.smallest_time_in_turns_low,
            in_turns_high=record.smallest_time_in_turns_high or (math.inf if in_turns is not None else None),
        )
    )


def _cost(record: ScoreRecord) -> str:
    if record.cost_to_train is None:
        return ""
    price = f"{record.price_per_hour:g}"
    return f"{cost_text(record.cost_to_train)} (derived: Olympic mean at {price} per hour)"


def _runs(record: ScoreRecord) -> str:
    how = "reached the target"
    if record.division == keys.OPEN and record.quality_target is None:
        how = "ended by a criterion of their own, as Open allows"
    return f"{record.num_converged} of {record.num_runs} {how}"


def _open_quality(record: ScoreRecord) -> str:
    """What the rules demand of an Open result beside its time."""
    found = record.open_final_quality
    return "" if found is None else f"{quality(found)} (geometric mean of all scored runs, as Open demands)"


def _rcp(record: ScoreRecord) -> str:
    if not record.rcp_outcome:
        return ""
    word = {"passed": "allowed", "failed": "not allowed"}.get(record.rcp_outcome, "not tested")
    factor = record.rcp_factor
    scaled = "" if factor is None else "; score not scaled" if factor == 1 else f"; score scaled by {factor:.10g}"
    return f"{word} ({record.rcp_reason}){scaled}"


_SHOWN: tuple[tuple[str, Callable[[ScoreRecord], str]], ...] = (
    ("score", _score),
    ("verdict", _verdict),
    ("verification", lambda record: record.verification or ""),
    ("runs", _runs),
    ("Olympic mean", _olympic_mean),
    ("interval", _bounds),
    ("samples to converge", _shown_mean("samples_to_converge", "samples_cv", count)),
    ("smoothed, not scored", _shown_mean("samples_to_converge_smoothed", "smoothed_cv", count)),
    ("final quality", _open_quality),
    ("throughput", _shown_mean("throughput_samples_per_s", "throughput_cv", throughput_text)),
    ("evaluation, overhead", _overhead),
    ("smallest difference", _smallest),
    ("cost to train", _cost),
    ("convergence vs reference", _rcp),
)


def scores_csv(records: Sequence[ScoreRecord]) -> str:
    """Write one row per set, every number in full: its members but the runs."""
    names = [column.name for column in columns_of(ScoreRecord)]
    return render_csv(names, ([getattr(record, name) for name in names] for record in records))
