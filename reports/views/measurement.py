"""Measurements that are not scores, as blocks: throughput alone, a profile, a sweep's table."""

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from reports.comparison.noise import find_bands, measured_noise
from reports.comparison.sweep import SweepFacts
from reports.document.blocks import Block, Bullets, Prose, facts_part
from reports.facts.measured_sets import MeasuredSet, measured_side
from reports.facts.noise import Smallest
from reports.facts.traffic import total_bytes
from reports.page.figures.noise import smallest_words
from reports.page.figures.times import bounds_text
from reports.page.sections.law import law_words
from reports.page.sections.measured import in_unit, measured_columns
from reports.page.sections.profile import (
    ceilings_table,
    conditions,
    evaluation_sentence,
    headline,
    limits_table,
    operators_table,
    phases_table,
)
from reports.page.sections.sweep import sweep_notes, sweep_table
from reports.statistics.intervals import MIN_RUNS, log_summary, mean_interval
from reports.tables.scores import MeasurementDocument
from reports.text.formatting import count, percent, throughput_text
from reports.views.serving import serve_facts
from rules.records.measured.serve import ServeRecord
from rules.records.profile import ProfileRecord
from rules.records.run import TrafficRecord


def measured_blocks(measured: MeasuredSet, options: Mapping[str, int], path: Path) -> tuple[Block, ...]:
    """Show what one measurement found and the file at `path`; `options` is what was asked of it."""
    if measured.measure.counts_samples:
        facts = _throughput_facts(measured, options)
    else:
        facts = serve_facts(measured) if isinstance(measured.record, ServeRecord) else _mean_facts(measured)
    title = f"{measured.title}: {measured.kind}, measured; not a score"
    return (facts_part(title, (*facts, ("smallest difference", _smallest(measured)), ("file", str(path)))),)


def _noise(measured: MeasuredSet) -> Smallest | None:
    (band,) = find_bands([measured_side(measured)])
    return measured_noise(measured, band)


def _smallest(measured: MeasuredSet) -> str:
    """What a comparison with such a measurement can show, in one short line."""
    smallest = _noise(measured)
    if smallest is None:
        return f"not known: takes {MIN_RUNS} processes, has {len(measured.values)}"
    if smallest.in_turns is None:
        return f"{in_unit(smallest.apart, measured.measure.unit)} of {measured.measure.name} (80 % of cases)"
    return smallest_words(smallest)


def measurement_document(measured: MeasuredSet, options: Mapping[str, int], path: Path) -> MeasurementDocument:
    """As `measured_blocks`: where everything is, what every process measured, its mean and interval."""
    measure, values = measured.measure, measured.values
    smallest = _noise(measured)
    step = measured.clock_step if measured.measure.counts_samples else 0.0
    summary = log_summary(values, step=step) if measure.scale == "ratio" else None
    bounds = summary.interval if summary else mean_interval(values)
    return MeasurementDocument(
        kind=measured.kind,
        folder=str(measured.folder),
        file=str(path),
        benchmark=measured.benchmark,
        system=measured.system,
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
    )


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _throughput_facts(measured: MeasuredSet, options: Mapping[str, int]) -> list[tuple[str, str]]:
    """Show the geometric mean over the processes with its interval, and the traffic of the first."""
    facts = []
    if (summary := measured.throughput) is not None:
        each = "".join(f", {value} {name.removeprefix('num_')} each" for name, value in options.items())
        mean = f"{throughput_text(summary.geometric_mean)} of {summary.num_values} processes{each}"
        facts.append(("geometric mean", mean))
        if (bounds := summary.interval) is not None:
            both = f"{bounds_text(bounds, throughput_text)} ({bounds.method})"
            facts.append((f"{bounds.confidence:.0%} interval", both))
        facts.append(("varies by", f"{percent(summary.coefficient_of_variation)} between processes"))
    return facts + [("exchange", traffic_words(traffic)) for traffic in measured.traffic[:1]]


def _mean_facts(measured: MeasuredSet) -> list[tuple[str, str]]:
    """Show the mean of what is compared with its interval, and the means beside it."""
    facts = [(column.name, show(measured).text) for column, show in measured_columns(measured.measure)]
    return [*facts, ("processes", str(len(measured.values)))]


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
    return (replace(sweep_table(sweep, "sweep"), caption=""), Bullets(items=sweep_notes(sweep)), *closing, *law)
