"""A score: the Olympic mean with its uncertainty, and the factors that it is made of; as values, and as blocks."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from reports.comparison.band import Band
from reports.comparison.factor import overhead_share
from reports.comparison.noise import ASSUMED, find_bands, noise_of_runs
from reports.document.blocks import Block, Cell, facts_part, table_of
from reports.facts.noise import Noise, Smallest
from reports.parts.cost import cost_text, cost_to_train
from reports.parts.noise import smallest_words
from reports.render.csv import render_csv
from reports.results.grid import smoothed_samples
from reports.results.logs import make_result
from reports.results.records import SetRecords, read_run_set
from reports.results.result import Result, Standing, overhead_ratio
from reports.statistics.intervals import MIN_RUNS, log_summary
from reports.tables.columns import shared_members
from reports.tables.scores import (
    FactorMean,
    NoiseRecord,
    RunDocument,
    ScoredRun,
    ScoreRecord,
    SmallestDifference,
    SpreadShares,
)
from reports.text.formatting import count, duration, percent, plural, throughput_text
from rules.checks.rule import SEVERITIES
from rules.checks.subject import JudgedSet
from rules.logs.text import printable
from rules.scoring.results import BenchmarkResult, RunResult

STEADY_THROUGHPUT = 0.05
"""Coefficient of variation above which speed is remarked on; quiet systems show 0.001 to 0.005."""
OWN = "not an MLPerf result: a benchmark of its own"
_STANDINGS: dict[Standing, str | None] = {
    "own": OWN,
    "unknown": OWN,
    "unverified": "unverified: result not verified by MLCommons Association",
    "published": "verification by MLCommons is not known here",
}


def describe_score(result: Result, band: Band = ASSUMED) -> ScoreRecord:
    """One set's score in SI units; None is not known or does not exist. `band` is what drift between sets may do."""
    score, price_per_hour = result.score, result.price_per_hour
    converged = [run for run in score.runs if run.converged]
    times_s = [run.time_to_train_s for run in converged if run.time_to_train_s is not None]
    is_whole = score.olympic_mean_s is not None and len(times_s) == len(score.runs)
    bounds, growth = result.interval if is_whole else None, result.growth
    return ScoreRecord(
        path=printable(result.verdict.subject),
        benchmark=score.benchmark,
        round=score.round,
        standing=_STANDINGS[result.standing] if result.benchmark is not None else None,
        verdict=result.outcome,
        num_errors=result.verdict.count("error"),
        num_runs=len(score.runs),
        num_runs_required=score.num_runs_required,
        num_converged=len(converged),
        score_s=score.score_s,
        olympic_mean_s=score.olympic_mean_s,
        interval_low_s=bounds.low if bounds is not None else None,
        interval_high_s=bounds.high if bounds is not None else None,
        interval_confidence=bounds.confidence if bounds is not None else None,
        interval_coverage=bounds.coverage if bounds is not None else None,
        grown_to=growth.width if growth is not None else None,
        grown_after=growth.after if growth is not None else None,
        no_interval_reason=None if bounds is not None else _why_no_interval(score, len(times_s)),
        dropped=tuple(_name(score.runs[index]) for index in score.dropped),
        samples_to_converge=_summary([run.samples_to_converge for run in converged]),
        samples_to_converge_smoothed=_smoothed(converged),
        throughput_samples_per_s=_summary([run.throughput_samples_per_s for run in converged]),
        overhead_s=_summary([run.overhead_s for run in converged]),
        overhead_ratio=_summary([overhead_ratio(run) for run in converged]),
        rcp_outcome=score.rcp_outcome,
        rcp_reason=score.rcp_reason,
        rcp_factor=score.rcp_factor,
        no_score_reason=score.no_score_reason,
        price_per_hour=price_per_hour,
        cost_to_train=cost_to_train(score.olympic_mean_s, price_per_hour),
        runs=tuple(
            ScoredRun(file=_name(run), converged=run.converged, time_to_train_s=run.time_to_train_s, seed=run.seed)
            for run in score.runs
        ),
        noise=_noise(noise_of_runs(result, band)),
    )


def _noise(noise: Noise) -> NoiseRecord:
    """As JSON has it: no difference at all is null, and not infinite."""

    def smallest(found: Smallest | None) -> SmallestDifference | None:
        ends = (None, None) if found is None else (found.apart, found.in_turns)
        later_set, in_turns = (end if end is not None and math.isfinite(end) else None for end in ends)
        return None if found is None else SmallestDifference(later_set=later_set, in_turns=in_turns)

    return NoiseRecord(
        num_runs=noise.num_runs,
        shares=None if noise.shares is None else SpreadShares(**shared_members(noise.shares, SpreadShares)),
        time_to_train=smallest(noise.time),
        throughput=smallest(noise.throughput),
    )


def _why_no_interval(result: BenchmarkResult, num_times: int) -> str | None:
    """Why an Olympic mean has no interval; None where there is no mean either."""
    if result.olympic_mean_s is None:
        return None
    if num_times < len(result.runs):
        return "a run did not converge, and an infinite time leaves no mean"
    return f"{plural(len(result.runs), 'run')}, and an interval takes {MIN_RUNS}"


def _name(run: RunResult) -> str:
    return printable(run.path.replace("\\", "/").rsplit("/", 1)[-1])


def _smoothed(converged: Sequence[RunResult]) -> FactorMean | None:
    """None where a run has no smoothed crossing: a mean of the others would be one of chosen runs."""
    values = [smoothed_samples(run) for run in converged]
    return None if None in values else _summary(values)


def _summary(values: Sequence[float | int | None]) -> FactorMean | None:
    found = log_summary(values)
    return None if found is None else FactorMean(**shared_members(found, FactorMean))


def score_blocks(records: Sequence[ScoreRecord]) -> tuple[Block, ...]:
    """One table with a row per set; what no set has is left out."""
    used = [(name, show) for name, show in _SHOWN if any(show(record) for record in records)]
    title = ("result set", lambda record: Cell(text=_problem(record), sub=record.path))
    return (replace(table_of(records, (title, *used), id_="scores"), layout="records"),)


def describe_scores(judged: Sequence[JudgedSet], price_per_hour: float | None = None) -> tuple[ScoreRecord, ...]:
    """Several sets' scores as `describe_score` has one's; the sets that repeat them are looked for once."""
    results = [replace(_result_of(found), price_per_hour=price_per_hour) for found in judged]
    return tuple(map(describe_score, results, find_bands(results)))


def _result_of(judged: JudgedSet) -> Result:
    """Make the result of a set without the records of its attempts, of which a score says nothing."""
    root = judged.result_set.root
    asked = read_run_set(root, []) if root is not None else None
    return make_result(0, "", judged, SetRecords(run_set=asked, attempts=(), system=(), problems=()))


def _finished_score(result: Result) -> ScoreRecord:
    (band,) = find_bands([result])
    return describe_score(result, band)


def finished_document(result: Result, system: str, folder: Path, page: Path) -> RunDocument:
    """As `finished_blocks`: where everything is, and what `describe_score` says."""
    score = _finished_score(result)
    return RunDocument(**shared_members(score, ScoreRecord), folder=str(folder), report=str(page), system=system)


def finished_blocks(result: Result, system: str, folder: Path, page: Path) -> tuple[Block, ...]:
    """The score of a set that was just completed in `folder`, with its verdict and where everything is."""
    record = _finished_score(result)
    counts = ", ".join(plural(result.verdict.count(severity), severity) for severity in SEVERITIES[:2])
    shown = {name: show(record) for name, show in _SHOWN}
    if record.score_s is None:
        rows = {"score": f"none: {record.no_score_reason or 'the runs do not make one'}"}
    else:
        first = result.score.num_runs_scored
        of = f" of the first {first} runs" if first < len(result.runs) else ""
        rows = {"time to train": f"{duration(record.score_s)} (measured; Olympic mean{of})"}
        rows |= {name: shown[name] for name in ("interval", "samples to converge", "throughput")}
        speed = record.throughput_samples_per_s
        if speed is not None and (speed.coefficient_of_variation or 0) > STEADY_THROUGHPUT:
            rows["note"] = "the speed varied between runs: something disturbed them, see 'dlrmbench doctor'"
        rows["evaluation, overhead"] = shown["evaluation, overhead"]
    rows = {
        "verdict": f"{result.verdict.outcome.upper()}: {counts}",
        "runs": shown["runs"],
        **rows,
        "smallest difference": shown["smallest difference"],
        "results": str(folder),
        "report": str(page),
    }
    return (facts_part(f"{record.benchmark} on {system}", rows.items()),)


def _problem(record: ScoreRecord) -> str:
    """'dlrm_dcnv2, round 5.0'."""
    return f"{record.benchmark or 'unknown benchmark'}{', round ' + record.round if record.round else ''}"


def _score(record: ScoreRecord) -> str:
    if record.score_s is None:
        return f"none: {record.no_score_reason}"
    is_official = record.standing in (_STANDINGS["unverified"], _STANDINGS["published"])
    shown = duration(record.score_s)
    if not is_official:
        return shown
    minutes = f"{record.score_s / 60:.6f} min"  # as MLCommons publishes it
    return minutes if shown.endswith(" min") else f"{shown} = {minutes}"


def _verdict(record: ScoreRecord) -> str:
    is_invalid = record.verdict == "invalid"
    return f"INVALID: {plural(record.num_errors or 0, 'error')}; see 'dlrmbench check'" if is_invalid else ""


def _olympic_mean(record: ScoreRecord) -> str:
    if record.olympic_mean_s is None:
        return ""
    return f"{duration(record.olympic_mean_s)}; dropped: {', '.join(record.dropped)}"


def _bounds(record: ScoreRecord) -> str:
    if record.interval_low_s is None:
        return f"none: {record.no_interval_reason}" if record.no_interval_reason else ""
    low, high = duration(record.interval_low_s), duration(record.interval_high_s)
    of = f" of {record.num_runs} runs" if (record.num_runs or 0) > (record.num_runs_required or 0) else ""
    if record.grown_to is not None:
        width, after = percent(record.grown_to), record.grown_after
        short = f", not known to {width}" if after is None else f", known to {width} after {after}"
        of += f" grown to {width}" if after == record.num_runs else short
    return f"{low} to {high} (geometric mean{of}, at least {percent(record.interval_confidence, 0)})"


def _mean(name: str, show: Callable[[float | None], str]) -> Callable[[ScoreRecord], str]:
    """Of a factor: its geometric mean over the runs and how much it varies."""

    def text(record: ScoreRecord) -> str:
        if (summary := getattr(record, name)) is None:
            return ""
        spread = summary.coefficient_of_variation
        varies = f", coefficient of variation {percent(spread)}" if spread is not None else ""
        return f"{show(summary.geometric_mean)} (geometric mean{varies})"

    return text


def _overhead(record: ScoreRecord) -> str:
    summary = record.overhead_ratio
    return "" if summary is None else f"{overhead_share(summary.geometric_mean)} of the time to train"


def _smallest(record: ScoreRecord) -> str:
    """What a comparison with such a set can show, in one short line."""
    noise = record.noise
    if noise.time_to_train is None:
        few = noise.num_runs < MIN_RUNS
        return f"not known: takes {MIN_RUNS} runs that reach the target, has {noise.num_runs}" if few else ""
    found = noise.time_to_train
    return smallest_words(
        Smallest(apart=math.inf if found.later_set is None else found.later_set, in_turns=found.in_turns)
    )


def _cost(record: ScoreRecord) -> str:
    if record.cost_to_train is None:
        return ""
    price = f"{record.price_per_hour:g}"
    return f"{cost_text(record.cost_to_train)} (derived: Olympic mean at {price} per hour)"


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
    ("standing", lambda record: record.standing or ""),
    ("runs", lambda record: f"{record.num_converged} of {record.num_runs} reached the target"),
    ("Olympic mean", _olympic_mean),
    ("interval", _bounds),
    ("samples to converge", _mean("samples_to_converge", count)),
    ("smoothed, not scored", _mean("samples_to_converge_smoothed", count)),
    ("throughput", _mean("throughput_samples_per_s", throughput_text)),
    ("evaluation, overhead", _overhead),
    ("smallest difference", _smallest),
    ("cost to train", _cost),
    ("convergence vs reference", _rcp),
)
_COLUMNS = (
    "path", "benchmark", "round", "standing", "verdict", "num_runs", "num_runs_required", "num_converged", "score_s",
    "olympic_mean_s", "interval_low_s", "interval_high_s", "samples_to_converge", "throughput_samples_per_s",
    "overhead_ratio", "rcp_outcome", "rcp_factor", "no_score_reason", "price_per_hour", "cost_to_train",
    "samples_to_converge_smoothed",
)  # fmt: skip


def scores_csv(records: Sequence[ScoreRecord]) -> str:
    """One row per set, every number in full."""
    values = ([getattr(record, name) for name in _COLUMNS] for record in records)
    rows = ([v.geometric_mean if isinstance(v, FactorMean) else v for v in row] for row in values)
    return render_csv(_COLUMNS, rows)
