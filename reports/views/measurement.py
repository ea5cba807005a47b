"""Measurements that are not scores, as blocks: throughput alone, a profile, a sweep's table."""

import math
import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from reports.comparison.noise import find_bands, noise_of_processes
from reports.comparison.sweep import SweepFacts
from reports.document.blocks import Block, Bullets, Prose, facts_part
from reports.facts.checkpoints import checkpoint_words, read_checkpoints
from reports.facts.noise import Smallest
from reports.facts.traffic import total_bytes, traffic_of
from reports.kinds.details import details_of
from reports.parts.cells import bounds_text
from reports.parts.law import law_words
from reports.parts.measured import in_unit, measured_columns
from reports.parts.noise import smallest_words
from reports.parts.profile import (
    ceilings_table,
    conditions,
    evaluation_sentence,
    headline,
    limits_table,
    operators_table,
    phases_table,
)
from reports.parts.sweep import sweep_notes, sweep_table
from reports.results.measured import rate_summary, title_of, value_step
from reports.results.result import Result
from reports.statistics.intervals import IF_INDEPENDENT, MIN_RUNS, log_summary, mean_interval
from reports.tables.scores import MeasurementDocument
from reports.text.formatting import count, percent, throughput_text
from rules.records.profile import ProfileRecord
from rules.records.run import TrafficRecord


def measured_blocks(measured: Result, options: Mapping[str, int], path: Path) -> tuple[Block, ...]:
    """Show what one measurement found and the file at `path`; `options` is what was asked of it."""
    if measured.measure.counts_samples:
        facts = _throughput_facts(measured, options)
    else:
        lines = details_of(measured.kind).lines
        facts = _mean_facts(measured) if lines is None else list(lines(measured))
    title = f"{title_of(measured)}: {measured.kind}, measured; not a score"
    if words := checkpoint_words(read_checkpoints([measured])):
        facts.append(("checkpoints", words))
    page = ("report", f"dlrmbench report {shlex.quote(str(measured.place))}")
    return (facts_part(title, (*facts, ("smallest difference", _smallest(measured)), ("file", str(path)), page)),)


def _noise(measured: Result) -> Smallest | None:
    (band,) = find_bands([measured])
    return noise_of_processes(measured, band)


def _smallest(measured: Result) -> str:
    """What a comparison with such a measurement can show, in one short line."""
    smallest = _noise(measured)
    if smallest is None:
        return f"not known: takes {MIN_RUNS} processes, has {len(measured.measured_values)}"
    if smallest.in_turns is None:
        return f"{in_unit(smallest.apart, measured.measure.unit)} of {measured.measure.name} (80 % of cases)"
    return smallest_words(smallest)


def measurement_document(measured: Result, options: Mapping[str, int], path: Path) -> MeasurementDocument:
    """As `measured_blocks`: where everything is, what every process measured, its mean and interval."""
    measure, values = measured.measure, measured.measured_values
    smallest = _noise(measured)
    summary = log_summary(values, step=value_step(measured)) if measure.scale == "ratio" else None
    bounds = summary.interval if summary else mean_interval(values)
    return MeasurementDocument(
        kind=measured.kind,
        folder=str(measured.place),
        file=str(path),
        benchmark=measured.benchmark,
        system=measured.system.name,
        options=dict(options),
        quantity=measure.name,
        unit=measure.unit,
        values=values,
        mean=summary.geometric_mean if summary else measured.mean(measure.value),
        low=bounds.low if bounds else None,
        high=bounds.high if bounds else None,
        confidence=bounds.confidence if bounds else None,
        smallest_apart=_finite(smallest.apart) if smallest else None,
        smallest_in_turns=_finite(smallest.in_turns) if smallest else None,
        smallest_in_turns_low=_finite(smallest.in_turns_low) if smallest else None,
        smallest_in_turns_high=_finite(smallest.in_turns_high) if smallest else None,
    )


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _throughput_facts(measured: Result, options: Mapping[str, int]) -> list[tuple[str, str]]:
    """Show the geometric mean over the processes with its interval, and the traffic of the first."""
    facts = []
    if (summary := rate_summary(measured)) is not None:
        each = "".join(f", {value} {name.removeprefix('num_')} each" for name, value in options.items())
        mean = f"{throughput_text(summary.geometric_mean)} of {summary.num_values} processes{each}"
        facts.append(("geometric mean", mean))
        if (bounds := summary.interval) is not None:
            both = f"{bounds_text(bounds, throughput_text)} ({bounds.method}, {IF_INDEPENDENT})"
            facts.append((f"{bounds.confidence:.0%} interval", both))
        facts.append(("varies by", f"{percent(summary.coefficient_of_variation)} between processes"))
    return facts + [("exchange", traffic_words(traffic)) for traffic in traffic_of(measured)[:1]]


def _mean_facts(measured: Result) -> list[tuple[str, str]]:
    """Show the mean of what is compared with its interval, and the means beside it."""
    facts = [(column.name, show(measured).text) for column, show in measured_columns(measured.measure)]
    return [*facts, ("processes", str(len(measured.measured_values)))]


def traffic_words(traffic: TrafficRecord) -> str:
    """What the ranks of one measured process send to each other in a step."""
    num_bytes = count(total_bytes(traffic.bytes_per_step))
    return f"{num_bytes} bytes per step between {traffic.num_ranks} ranks, counted"


def profile_blocks(record: ProfileRecord) -> tuple[Block, ...]:
    """The whole profile: what was found, its tables, its conditions."""
    return (
        Prose(text=f"{record.benchmark}: {headline(record)}"),
        phases_table(record),
        limits_table(record),
        Prose(text=evaluation_sentence(record)),
        ceilings_table(record),
        operators_table(record),
        Bullets(items=tuple(conditions(record))),
    )


def sweep_blocks(sweep: SweepFacts) -> tuple[Block, ...]:
    """One row per configuration, and what must be known beside the table."""
    closing = (Prose(text=sweep.closing),) if sweep.closing else ()
    law = (Prose(text=law_words(sweep.law)),) if sweep.law else ()
    words = checkpoint_words(
        read_checkpoints([replace(row.result, label=row.label) for row in sweep.rows if row.result])
    )
    kept = (Prose(text=words),) if words else ()
    return (
        replace(sweep_table(sweep, "sweep"), caption=""),
        Bullets(items=sweep_notes(sweep)),
        *closing,
        *law,
        *kept,
    )
