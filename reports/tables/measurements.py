"""Measurements other than runs to a target, of whatever kind: one row per process that measured."""

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta

from reports.facts.measured_sets import MeasuredSet
from reports.tables.records import Number, Row, Text, Whole, meaning
from reports.text.formatting import moment_of

Moment = Annotated[datetime, Meta(tz=True)] | None


class MeasurementRow(Row, kw_only=True, frozen=True):
    """One process of a measurement, and the one quantity that its kind compares."""

    configuration: Annotated[str, meaning("label of the set; identifies the rows of all tables")]
    kind: Annotated[str, meaning("throughput, profile, or another kind of measurement")]
    benchmark: Annotated[Text, meaning("the benchmark's name")] = None
    system: Annotated[Text, meaning("the system's name")] = None
    created_utc: Annotated[Moment, meaning("when the set began")] = None
    process: Annotated[Whole, meaning("number of the process in its measurement, from 0")]
    seed: Annotated[Whole, meaning("the process's random seed")] = None
    quantity: Annotated[str, meaning("what was measured")]
    value: Annotated[Number, meaning("how much of it, in `unit`")]
    unit: Annotated[str, meaning("of `value`")]
    scale: Annotated[Literal["ratio", "difference"], meaning("whether values are compared by ratio or by difference")]
    direction: Annotated[Literal["higher", "lower"], meaning("which is better")]
    path: Annotated[str, meaning("the measurement's file")]


def measurement_rows(measured: MeasuredSet, label: str) -> Iterator[MeasurementRow]:
    """The rows of one measurement, of the set called `label`."""
    about, measure = measured.run_set, measured.measure
    for index, repetition in enumerate(measured.processes):
        yield MeasurementRow(
            configuration=label,
            kind=measured.kind,
            benchmark=measured.benchmark,
            system=measured.system,
            created_utc=moment_of(about.created_utc) if about else None,
            process=index,
            seed=about.seeds[index] if about and index < len(about.seeds) else None,
            quantity=measure.title,
            value=getattr(repetition, measure.value),
            unit=measure.unit,
            scale=measure.scale,
            direction=measure.direction,
            path=str(measured.path),
        )
