"""Makes the output of measurements that are not scores as blocks: of throughput and other kinds of measurement, of
profiles of a training step, and of the tables of sweeps."""

import math
import shlex
from dataclasses import replace
from pathlib import Path

from reports.comparison.noise import find_tolerances, noise_of_processes
from reports.comparison.sweep import SweepFacts
from reports.document.blocks import Block, Bullets, Prose, facts_part
from reports.facts.checkpoints import checkpoint_words, read_checkpoints
from reports.facts.energy import mean_energy_j
from reports.facts.noise import Smallest
from reports.kinds.details import details_of
from reports.parts.cost import energy_fact
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
from reports.results.measured import title_of, value_step
from reports.results.result import Result
from reports.statistics.intervals import MIN_RUNS, log_summary, mean_interval
from reports.tables.scores import MeasurementDocument
from reports.views.score import standing_facts
from rules.records.profile import ProfileRecord


def measured_blocks(measured: Result, path: Path, page: Path | None = None) -> tuple[Block, ...]:
    """Return the named values of one measurement, with the path of its file, `path`, and of its HTML page, `page`.
    Without a page, the command that makes one is named."""
    lines = details_of(measured.kind).lines
    facts = _mean_facts(measured) if lines is None else list(lines(measured))
    title = f"{title_of(measured)}: {measured.kind}, measured; not a score"
    if words := checkpoint_words(read_checkpoints([measured])):
        facts.append(("checkpoints", words))
    if (energy := energy_fact(measured)) is not None:
        facts.append((energy.name.lower(), energy.line))
    facts += standing_facts(measured).items()
    makes = f"none yet; make it: dlrmbench report {shlex.quote(str(measured.place))}"
    places = (("file", str(path)), ("report", makes if page is None else str(page)))
    return (facts_part(title, (*facts, ("detectable difference", _smallest(measured)), *places)),)


def _noise(measured: Result) -> Smallest | None:
    (tolerance,) = find_tolerances([measured])
    return noise_of_processes(measured, tolerance)


def _smallest(measured: Result) -> str:
    """Return in one short line the smallest difference that can be detected between this measurement and another with
    as many processes and equal noise."""
    smallest = _noise(measured)
    if smallest is None:
        return f"not known: takes {MIN_RUNS} processes, has {len(measured.measured_values)}"
    if smallest.in_turns is None:
        return f"{in_unit(smallest.apart, measured.measure.unit)} of {measured.measure.name} (80 % power)"
    return smallest_words(smallest)


def measurement_document(measured: Result, path: Path) -> MeasurementDocument:
    """Return the JSON document of a measurement: its files, the value of every process, and the mean of these with
    its interval."""
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
        options=dict(measured.asked.options) if measured.asked else {},
        quantity=measure.name,
        unit=measure.unit,
        values=values,
        mean=summary.geometric_mean if summary else measured.mean(measure.value),
        low=bounds.low if bounds else None,
        high=bounds.high if bounds else None,
        confidence=bounds.confidence if bounds else None,
        energy_j=mean_energy_j(measured),
        smallest_apart=_finite(smallest.apart) if smallest else None,
        smallest_in_turns=_finite(smallest.in_turns) if smallest else None,
        smallest_in_turns_low=_finite(smallest.in_turns_low) if smallest else None,
        smallest_in_turns_high=_finite(smallest.in_turns_high) if smallest else None,
    )


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _mean_facts(measured: Result) -> list[tuple[str, str]]:
    """Return the means of a measurement as (name, value) texts: the mean of the compared quantity with its interval,
    the means of the other recorded quantities, and the number of processes."""
    facts = [(column.name, show(measured).text) for column, show in measured_columns(measured.measure)]
    return [*facts, ("processes", str(len(measured.measured_values)))]


def profile_blocks(record: ProfileRecord) -> tuple[Block, ...]:
    """Return the blocks of a training step's profile: its headline, tables and conditions."""
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
    """Return the table of a sweep, one row per configuration, with notes, the best configuration and the fitted
    scaling law."""
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
