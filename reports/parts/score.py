"""Makes the JSON documents of scores, with the factors of the time to train (samples to converge, throughput,
overhead), and makes from a document the named values that the page and the terminal print."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from reports.comparison.factor import overhead_share
from reports.comparison.noise import describe_sets
from reports.document.blocks import Fact
from reports.facts.energy import energy_per_sample_j, energy_text, mean_energy_j
from reports.facts.noise import Smallest
from reports.parts.cost import cost_text, cost_to_train, energy_source
from reports.parts.noise import disturbed_words, outlier_words, smallest_words, variation_text
from reports.results.logs import make_result, unique_labels
from reports.results.records import read_set_records
from reports.results.resolution import mean_step, samples_step, smoothed_samples
from reports.results.result import Result, Standing, overhead_ratio
from reports.statistics.intervals import IF_RUNS_INDEPENDENT, MIN_RUNS, log_summary
from reports.tables.columns import shared_members
from reports.tables.records import RunRow, SetMember, SetRow
from reports.tables.scores import ScoreRecord
from reports.text.formatting import (
    TimeUnit,
    count,
    duration,
    epochs,
    percent,
    plural,
    quality,
    si,
    time_unit,
)
from reports.text.formatting import printable as short
from rules.checks.subject import JudgedSet
from rules.logs import keys
from rules.logs.text import printable
from rules.scoring.results import RunResult

EPOCHS = "epochs to converge"
"""Name of a printed value: the samples to converge, given as epochs."""
ENERGY = "energy per run"
OWN = "not an MLPerf result: a benchmark of its own"
_VERIFICATION: dict[Standing, str | None] = {
    "own": OWN,
    "unknown": OWN,
    "unverified": "unverified: result not verified by MLCommons Association",
    "published": "it is not known whether MLCommons verified the result",
}


def describe_score(result: Result) -> ScoreRecord:
    """Return the JSON document of the score of one result set: the set's row of the tables of results, and values
    that only a score has."""
    (record,) = describe_scores([result])
    return record


def describe_scores(sets: Sequence[Result]) -> tuple[ScoreRecord, ...]:
    """Return, for each result set, the JSON document of its score: the set's row of the tables of results, and values
    that only a score has; with the cost to train where a price is known."""
    rows = describe_sets(sets).configurations
    return tuple(_describe(result, row) for result, row in zip(sets, rows, strict=True))


def results_of_sets(judged: Sequence[JudgedSet]) -> list[Result]:
    """Make a result, with a label that no other has, from each result set that the rules have judged."""
    labels = unique_labels([found.result_set for found in judged])
    return [
        make_result(index, label, found, read_set_records(found.result_set, found.files))
        for index, (label, found) in enumerate(zip(labels, judged, strict=True))
    ]


def score_sets(judged: Sequence[JudgedSet], price_per_hour: float | None = None) -> tuple[ScoreRecord, ...]:
    """Return the JSON document of the score of each result set that the rules have judged; with the price per hour of
    the system, the document has the cost to train."""
    sets = results_of_sets(judged)
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
        outlier=outlier_words(result),
        **_mean("overhead_s", "overhead", [run.overhead_s for run in converged]),
        **_mean("overhead_ratio", "overhead_ratio", [overhead_ratio(run) for run in converged]),
        open_final_quality=score.final_quality if row.division == keys.OPEN else None,
        rcp_reason=score.rcp_reason,
        energy_j=mean_energy_j(result),
        energy_per_sample_j=energy_per_sample_j(result),
        energy_source=energy_source(result),
        price_per_hour=result.price_per_hour,
        cost_to_train=cost_to_train(score.olympic_mean_s, result.price_per_hour),
        runs=tuple(RunRow(**shared_members(run, RunRow)) for run in row.runs),
    )


def _why_no_interval(result: Result) -> str | None:
    """Return the reason why a result's Olympic mean has no interval; None where it has one, or where there is no
    Olympic mean."""
    if result.interval is not None or result.score.olympic_mean_s is None:
        return None
    if len(result.converged) < len(result.runs):
        return "a run did not converge, and an infinite time leaves no mean"
    return f"{plural(len(result.runs), 'run')}, and an interval takes {MIN_RUNS}"


def _smoothed(converged: Sequence[RunResult]) -> list[float | None]:
    """Return for each run the samples at which its quality curve crosses the target, interpolated between
    evaluations. Return [] if the curve of any run does not cross it: to leave that run out would bias the mean."""
    values = [smoothed_samples(run) for run in converged]
    return [] if None in values else values


def _mean(name: str, spread: str, values: Sequence[float | None]) -> dict[str, Any]:
    """Return two fields of a score's JSON document for a quantity such as the overhead: the geometric mean of the
    runs' values, in the field `name`, and their coefficient of variation, in the field `spread`_cv. Return an empty
    dict if no value is known."""
    found = log_summary(values)
    return {} if found is None else {name: found.geometric_mean, f"{spread}_cv": found.coefficient_of_variation}


def score_facts(record: ScoreRecord) -> Mapping[str, Fact]:
    """Return a dict from names to a score's printed values, in reading order: the score, the factors of the time such
    as throughput, and further values such as the energy."""
    found = {name: show(record) for name, show in _SHOWN}
    return {
        name: Fact(name=name, value=told) if isinstance(told, str) else replace(told, name=name)
        for name, told in found.items()
        if told
    }


def time_fact(result: Result, unit: TimeUnit | None = None) -> Fact:
    """Return the score as a named value: a time to train, in `unit` or in a unit chosen for the time. Without a
    score, return the mean time of the runs that met the target, with the reason why there is no score."""
    score_s = result.score.score_s
    if score_s is None or not math.isfinite(score_s):
        reason = f"no score: {short(result.score.no_score_reason or 'the runs do not make one')}"
        found = unscored_time([run.time_s for run in result.converged], unit)
        if found is None:
            return Fact(name="time to train", value="none", note=reason)
        return replace(found, name="time to train", note=f"{found.note}; {reason}")
    unit, first = unit or time_unit([score_s]), result.score.num_runs_scored
    of = f" of the first {first} runs" if first < len(result.runs) else ""
    return Fact(name="time to train", value=unit.number(score_s), unit=unit.name, note=f"measured; Olympic mean{of}")


def unscored_time(times_s: Sequence[float | None], unit: TimeUnit | None = None) -> Fact | None:
    """Return the mean time of runs that met the target, for a result without a score, as a value with unit and note.
    For one run this is the run's time, for several their geometric mean. None where no run has a time."""
    summary = log_summary(times_s)
    if summary is None:
        return None
    unit, number = unit or time_unit([summary.geometric_mean]), summary.num_values
    of = "one run" if number == 1 else f"geometric mean of {number} runs"
    return Fact(name="", value=unit.number(summary.geometric_mean), unit=unit.name, note=f"measured; {of}")


def _unscored_time(record: ScoreRecord) -> Fact | None:
    if record.score_s is not None and math.isfinite(record.score_s):
        return None
    return unscored_time([run.time_to_train_s for run in record.runs if run.status == "success"])


def _score(record: ScoreRecord) -> str:
    if record.score_s is None:
        return f"none: {record.no_score_reason}"
    shown = duration(record.score_s)
    if record.status != "official":
        return shown
    minutes = f"{record.score_s / 60:.6f} min"  # as MLCommons publishes scores
    return minutes if shown.endswith(" min") else f"{shown} = {minutes}"


def record_disturbed(record: ScoreRecord) -> str:
    """Return the remark that the result set of a score's document was measured on a noisy machine: '; noisy machine:
    …'; '' for a quiet machine."""
    return disturbed_words(record.speed_cv, record.num_converged or 0, record.outlier)


def _verdict(record: ScoreRecord) -> str:
    disturbed = record_disturbed(record) if record.score_s is not None else ""
    if record.outcome == "invalid":
        return f"INVALID: {plural(record.num_errors or 0, 'error')}; see 'dlrmbench check'{disturbed}"
    return f"{(record.outcome or '').upper()}{disturbed}" if disturbed else ""


def _energy(record: ScoreRecord) -> str:
    if record.energy_j is None:
        return ""
    each = "" if not record.energy_per_sample_j else f"{1 / record.energy_per_sample_j:.3g} samples/J; "
    return f"{energy_text(record.energy_j)} ({each}measured by {printable(record.energy_source or '')})"


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
    return f"{low} to {high} (geometric mean{of}, at least {percent(record.confidence, 0)}, {IF_RUNS_INDEPENDENT})"


def _shown_mean(
    name: str, spread: str, unit: str, show: Callable[[float | None], str], step: str = ""
) -> Callable[[ScoreRecord], Fact | None]:
    """Return a function that takes a score's document and returns a value to print, or None. The value is the
    document's field `name`, a geometric mean over runs; the field `spread` has its coefficient of variation. If the
    runs' values change only at evaluations, as samples to converge do, `step` names the field with the distance
    between two evaluations."""

    def fact(record: ScoreRecord) -> Fact | None:
        value, variation = getattr(record, name), getattr(record, spread)
        if value is None:
            return None
        number, grid = record.num_converged or 0, getattr(record, step) if step else None
        known = variation is not None and number > 1
        varies = f", CV {variation_text(variation, number, grid)}" if known else " of one run" if number == 1 else ""
        return Fact(name="", value=show(value), unit=unit, note=f"geometric mean{varies}")

    return fact


def _overhead(record: ScoreRecord) -> Fact | None:
    ratio = record.overhead_ratio
    share = "" if ratio is None else overhead_share(ratio).removesuffix(" %")
    return None if ratio is None else Fact(name="", value=share, unit="% of the time to train")


def _smallest(record: ScoreRecord) -> str:
    """Return in one short line the smallest differences in time that can be detected between this result set and
    another with as many runs and equal noise."""
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
    """Return in words the quality reached, which MLPerf's rules demand beside the time of a result in the Open
    division; '' in other divisions."""
    found = record.open_final_quality
    return "" if found is None else f"{quality(found)} (geometric mean of all scored runs, as Open demands)"


def _rcp(record: ScoreRecord) -> str:
    if not record.rcp_outcome:
        return ""
    word = {"passed": "allowed", "failed": "not allowed"}.get(record.rcp_outcome, "not tested")
    factor = record.rcp_factor
    scaled = "" if factor is None else "; score not scaled" if factor == 1 else f"; score scaled by {factor:.10g}"
    return f"{word} ({record.rcp_reason}){scaled}"


_SHOWN: tuple[tuple[str, Callable[[ScoreRecord], str | Fact | None]], ...] = (
    ("score", _score),
    ("time to train", _unscored_time),
    ("verdict", _verdict),
    ("verification", lambda record: record.verification or ""),
    ("runs", _runs),
    ("Olympic mean", _olympic_mean),
    ("interval", _bounds),
    ("samples to converge", _shown_mean("samples_to_converge", "samples_cv", "", count, "samples_step")),
    (EPOCHS, _shown_mean("epochs_to_converge", "epochs_cv", "epochs", epochs, "samples_step")),
    ("samples, interpolated", _shown_mean("samples_to_converge_smoothed", "smoothed_cv", "", count)),
    ("final quality", _open_quality),
    ("throughput", _shown_mean("throughput_samples_per_s", "throughput_cv", "samples/s", si)),
    ("evaluation, overhead", _overhead),
    ("detectable difference", _smallest),
    (ENERGY, _energy),
    ("cost to train", _cost),
    ("convergence vs reference", _rcp),
)
FACTS = tuple(name for name, _ in _SHOWN)
"""Names of all printed values of a score, in their order."""
