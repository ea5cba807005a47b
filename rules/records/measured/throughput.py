"""extra/throughput.json: samples per second over a fixed number of steps, one entry per fresh process; no score."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from msgspec import Meta, field

from rules.records.codec import Count, PositiveAmount, PositiveCount, Record
from rules.records.measure import Column, Measure, ProcessMeasurement
from rules.records.run import CheckpointsRecord, EnergyRecord, RankRecord, TrafficRecord

CLOCK_STEP_S = 1e-6
"""Durations are told to the microsecond."""


class ModelCosts(Record, frozen=True, kw_only=True):
    """What the model holds and does, computed from the configuration alone."""

    num_parameters: Count
    embedding_bytes: Count
    num_lookups_per_sample: Count
    embedding_bytes_per_sample: Count
    forward_flop_per_sample: Count
    training_flop_per_sample: Count


class ProcessRecord(Record, frozen=True, kw_only=True):
    """One fresh process; of several ranks, all of them together."""

    num_steps: PositiveCount
    num_samples: PositiveCount
    duration_s: PositiveAmount
    stated_samples_per_s: PositiveAmount = field(name="samples_per_s")
    """As the file has it; `samples_per_s` is what follows from samples and duration."""
    cache_cleared: bool
    hyperparameters: dict[str, Any]
    peak_device_bytes: Count | None
    peak_reserved_bytes: Count | None = None
    peak_rss_bytes: PositiveCount | None
    energy: EnergyRecord | None
    ranks: tuple[RankRecord, ...]
    traffic: TrafficRecord | None = field(name="exchange")
    started_utc: str | None = None
    """By the system's clock, so that it is seen whether two measurements took turns. None in files of old."""
    ended_utc: str | None = None
    checkpoints: CheckpointsRecord | None = None

    @property
    def samples_per_s(self) -> float:
        """Return the rate, on the grid of the clock."""
        return self.num_samples / self.duration_s

    @property
    def resolution(self) -> float:
        """Return the step of the clock as a fraction of what it told."""
        return min(CLOCK_STEP_S / self.duration_s, 1.0)


class ThroughputRecord(ProcessMeasurement, frozen=True, kw_only=True):
    """Samples per second, measured in fresh processes."""

    MEASURE: ClassVar[Measure] = Measure(
        title="Throughput",
        value="samples_per_s",
        unit="samples/s",
        scale="ratio",
        direction="higher",
        columns=(
            Column(member="num_steps", title="Steps", unit=None),
            Column(member="num_samples", title="Samples", unit=None),
            Column(member="duration_s", title="Time", unit="s"),
            Column(member="samples_per_s", title="Samples/s", unit="samples/s"),
            Column(member="peak_rss_bytes", title="Peak memory", unit="B"),
        ),
    )
    ASKED: ClassVar[tuple[str, ...]] = ("benchmark", "data_kind")
    MUST_AGREE: ClassVar[Mapping[str, str]] = {
        "data_kind": "different input: {} and {} data; reading a dataset is part of the time",
    }

    warm_up_steps: Count
    data_kind: str | None
    """"made_up": batches held in memory, no input in the time; else the kind of the dataset read."""
    computed: ModelCosts | None
    processes: Annotated[tuple[ProcessRecord, ...], Meta(min_length=1)]
    """At least five of a whole measurement; one in the file that a process leaves."""
