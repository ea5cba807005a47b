"""extra/copying.json: how fast memory is copied, one entry per fresh process; no score."""

from typing import Annotated, ClassVar

from msgspec import Meta

from rules.records.codec import PositiveAmount, PositiveCount, Record
from rules.records.measure import Column, Measure, ProcessMeasurement


class CopyingProcess(Record, frozen=True, kw_only=True):
    """One fresh process."""

    num_bytes: PositiveCount
    bytes_per_s: PositiveAmount


class CopyingRecord(ProcessMeasurement, frozen=True, kw_only=True):
    """Bytes per second, measured in fresh processes."""

    MEASURE: ClassVar[Measure] = Measure(
        title="Copying", value="bytes_per_s", unit="B/s", scale="ratio", direction="higher",
        columns=(Column(member="bytes_per_s", title="Copy rate", unit="B/s"),),
    )  # fmt: skip

    processes: Annotated[tuple[CopyingProcess, ...], Meta(min_length=1)]
