"""Measurements other than runs to a target, of whatever kind: one row per process that measured."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from reports.tables.records import Number, Row, Text, Whole, meaning
from reports.text.formatting import printable
from rules.records.codec import Damage, decode
from rules.records.kinds import KINDS
from rules.records.run_set import RunSetRecord
from rules.tree.inventory import EXTRA, RUN_SET

Moment = Annotated[datetime, Meta(tz=True)] | None


class MeasurementRow(Row, kw_only=True, frozen=True):
    """One process of a measurement, and the one quantity that its kind compares."""

    configuration: Annotated[str, meaning("name of the set's folder")]
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


def read_measurement(folder: Path, kind: str) -> tuple[tuple[MeasurementRow, ...], tuple[Damage, ...]]:
    """The rows of a run set's measurement of a kind, and what of its record and of the set's cannot be used."""
    path = folder / EXTRA / f"{kind}.json"
    record, run_set = decode(path, KINDS[kind]), decode(folder / EXTRA / RUN_SET, RunSetRecord)
    damages = tuple(file for file in (record, run_set) if isinstance(file, Damage))
    if isinstance(record, Damage):
        return (), damages
    about = None if isinstance(run_set, Damage) else run_set
    measure = record.MEASURE
    rows = (
        MeasurementRow(
            configuration=printable(folder.resolve().name, 80),
            kind=kind,
            benchmark=about.benchmark.name if about else None,
            system=about.system.name if about else None,
            created_utc=_moment(about.created_utc) if about else None,
            process=index,
            seed=about.seeds[index] if about and index < len(about.seeds) else None,
            quantity=measure.title,
            value=getattr(repetition, measure.value),
            unit=measure.unit,
            scale=measure.scale,
            direction=measure.direction,
            path=str(path),
        )
        for index, repetition in enumerate(record.repetitions())
    )
    return tuple(rows), damages


def _moment(text: str) -> datetime | None:
    """None for what is no moment with its offset from UTC."""
    try:
        moment = datetime.fromisoformat(text)
        return moment.astimezone(UTC) if moment.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None
