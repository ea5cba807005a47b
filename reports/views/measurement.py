"""Measurements that are not scores, as blocks: throughput alone, a profile, a sweep's table."""

from dataclasses import replace
from pathlib import Path

from reports.comparison.sweep import SweepFacts
from reports.document.blocks import Block, Bullets, Fact, Facts, Heading, Part, Prose
from reports.facts.measured_sets import MeasuredSet
from reports.facts.traffic import total_bytes
from reports.page.figures.profile import (
    ceilings_table,
    conditions,
    evaluation_sentence,
    headline,
    limits_table,
    operators_table,
    phases_table,
)
from reports.page.sections.measured import measured_columns
from reports.page.sections.sweep import sweep_notes, sweep_table
from reports.statistics.intervals import log_summary
from reports.text.formatting import count, interval, percent, throughput_text
from rules.records.profile import ProfileRecord
from rules.records.run import TrafficRecord


def throughput_blocks(measured: MeasuredSet, *, num_steps: int, path: Path) -> tuple[Block, ...]:
    """Samples per second over the processes of one measurement, and the file at `path` that holds it."""
    facts = []
    if (summary := log_summary(measured.rates)) is not None:
        mean = f"{throughput_text(summary.geometric_mean)} of {summary.num_values} processes, {num_steps} steps each"
        facts.append(Fact(name="geometric mean", value=mean))
        if (bounds := summary.interval) is not None:
            both = interval(throughput_text(bounds.low), throughput_text(bounds.high))
            facts.append(Fact(name=f"{bounds.confidence:.0%} interval", value=f"{both} ({bounds.method})"))
        facts.append(Fact(name="varies by", value=f"{percent(summary.coefficient_of_variation)} between processes"))
    facts += [traffic_fact(traffic) for traffic in measured.traffic[:1]]
    facts.append(Fact(name="file", value=str(path)))
    title = f"{measured.benchmark} on {measured.system}: throughput, measured; not a score"
    return (Part(heading=Heading(text=title), blocks=(Facts(facts=tuple(facts)),)),)


def measured_blocks(measured: MeasuredSet, path: Path) -> tuple[Block, ...]:
    """What one measurement found: the mean of what is compared with its interval, the means beside it, the file."""
    facts = [Fact(name=column.name, value=show(measured).text) for column, show in measured_columns(measured.measure)]
    facts += [Fact(name="processes", value=str(len(measured.values))), Fact(name="file", value=str(path))]
    title = f"{measured.title}: {measured.kind}, measured; not a score"
    return (Part(heading=Heading(text=title), blocks=(Facts(facts=tuple(facts)),)),)


def traffic_fact(traffic: TrafficRecord) -> Fact:
    """What the ranks of one measured process send to each other in a step."""
    num_bytes = count(total_bytes(traffic.bytes_per_step))
    return Fact(name="exchange", value=f"{num_bytes} bytes per step between {traffic.num_ranks} ranks, counted")


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
    return (replace(sweep_table(sweep, "sweep"), caption=""), Bullets(items=sweep_notes(sweep)))
