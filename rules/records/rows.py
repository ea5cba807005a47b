"""Define rows of the tables that reports export: the types of their columns, with units and descriptions."""

from datetime import datetime
from typing import Annotated, Any

from msgspec import Meta

from rules.records.codec import Record

_WORD = {"ge": -(2**63), "le": 2**63 - 1}


def _unit(unit: str, **limits: Any) -> Meta:
    return Meta(extra_json_schema={"unit": unit}, **limits)


def meaning(text: str) -> Meta:
    """Return the type annotation that gives a column of an exported table its description, which the documentation of
    tables shows."""
    return Meta(description=text)


Text = str | None


Whole = Annotated[int, Meta(**_WORD)] | None


Tally = Annotated[int, Meta(ge=0, le=2**63 - 1)] | None


Number = float | None


Amount = Annotated[float, Meta(ge=0)] | None


Share = Annotated[float, Meta(ge=0, le=1)] | None


Seconds = Annotated[float, _unit("s", ge=0)] | None


Milliseconds = Annotated[int, _unit("ms since 1970, UTC", **_WORD)] | None


Bytes = Annotated[float, _unit("bytes", ge=0)] | None


Joules = Annotated[float, _unit("J", ge=0)] | None


SamplesPerSecond = Annotated[float, _unit("samples/s", ge=0)] | None


Epochs = Annotated[float, _unit("epochs", ge=0)] | None


Epoch = Annotated[float, _unit("epochs")] | None


Samples = Annotated[int, _unit("samples", **_WORD)] | None


SmoothedSamples = Annotated[float, _unit("samples", ge=0)] | None


TrainedSamples = Annotated[int, _unit("samples", ge=0, le=2**63 - 1)] | None


QueriesPerSecond = Annotated[float, _unit("queries/s", ge=0)] | None


ItemsPerSecond = Annotated[float, _unit("items/s", ge=0)] | None


Moment = Annotated[datetime, Meta(tz=True)] | None


class Row(Record, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Row of an exported table; None means not known, or not measured, and never 0."""
