"""extra/throughput.json holds training samples per second over a fixed number of steps, one entry per fresh process;
it gives no score."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from msgspec import Meta, field

from rules.records.codec import Count, PositiveAmount, PositiveCount, Record
from rules.records.measure import Column, Measure, ProcessMeasurement
from rules.records.run import CheckpointsRecord, EnergyRecord, RankRecord, TrafficRecord

CLOCK_STEP_S = 1e-6
"""Resolution of recorded durations in seconds: one microsecond."""


# reference_models.costs has a ModelCosts too: code that trains; nothing under rules imports it.
class ModelCosts(Record, frozen=True, kw_only=True):
    """Parameters, embedding bytes and FLOP of the model, computed from the configuration without measuring."""

    num_parameters: Count
    embedding_bytes: Count
    num_lookups_per_sample: Count
    embedding_bytes_per_sample: Count
    forward_flop_per_sample: Count
    training_flop_per_sample: Count


class ProcessRecord(Record, frozen=True, kw_only=True):
    """Throughput measured in one fresh process; if there are several ranks, by all ranks together."""

    num_steps: PositiveCount
    num_samples: PositiveCount
    duration_s: PositiveAmount
    stated_samples_per_s: PositiveAmount = field(name="samples_per_s")
    """Training samples per second as stated in the file. The property `samples_per_s` does not use it: it is computed
    from the number of samples and the duration."""
    cache_cleared: bool
    hyperparameters: dict[str, Any]
    peak_device_bytes: Count | None
    peak_reserved_bytes: Count | None = None
    peak_rss_bytes: PositiveCount | None
    energy: EnergyRecord | None
    ranks: tuple[RankRecord, ...]
    traffic: TrafficRecord | None = field(name="exchange")
    started_utc: str | None = None
    """Time at which the process started, by the system's clock. The start times of two measurements' processes show
    whether the measurements alternated. None in files of earlier versions."""
    ended_utc: str | None = None
    checkpoints: CheckpointsRecord | None = None

    @property
    def samples_per_s(self) -> float:
        """Return the training samples per second of the process, from its samples and its duration."""
        return self.num_samples / self.duration_s

    @property
    def resolution(self) -> float:
        """Return the clock's resolution as a fraction of the measured duration, at most 1."""
        return min(CLOCK_STEP_S / self.duration_s, 1.0)


class ThroughputRecord(ProcessMeasurement, frozen=True, kw_only=True):
    """Training samples per second of one configuration, measured in several fresh processes."""

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
    """Kind of the dataset that training read. "made_up" means batches held in memory, so that the measured time
    includes no reading of input."""
    computed: ModelCosts | None
    processes: Annotated[tuple[ProcessRecord, ...], Meta(min_length=1)]
    """Measurements of the single processes. A whole throughput measurement has at least five; the file that each
    process leaves has one."""
