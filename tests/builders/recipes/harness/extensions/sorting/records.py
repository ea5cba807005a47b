"""extra/sorting.json: how fast numbers are sorted, one entry per fresh process; no score."""

from typing import Annotated, ClassVar

from msgspec import Meta

from rules.records.codec import PositiveAmount, PositiveCount, Record
from rules.records.measure import Column, Measure, ProcessMeasurement


class SortingProcess(Record, frozen=True, kw_only=True):
    """One fresh process."""

    num_values: PositiveCount
    values_per_s: PositiveAmount


class SortingRecord(ProcessMeasurement, frozen=True, kw_only=True):
    """Numbers sorted per second, measured in fresh processes."""

    MEASURE: ClassVar[Measure] = Measure(
        title="Sorting", value="values_per_s", unit="values/s", scale="ratio", direction="higher",
        columns=(Column(member="values_per_s", title="Sorting rate", unit="values/s"),),
    )  # fmt: skip

    processes: Annotated[tuple[SortingProcess, ...], Meta(min_length=1)]
