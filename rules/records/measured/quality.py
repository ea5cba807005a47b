"""extra/quality.json holds the quality of a model after a fixed number of training samples, one entry per fresh
process; it has no target and gives no score."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from rules.records.codec import Amount, Count, PositiveCount, Record, Share
from rules.records.measure import Column, Measure, ProcessMeasurement
from rules.records.measured.throughput import ModelCosts
from rules.records.metrics import METRICS, ROC_AUC, Metric, metric_of_member
from rules.records.run import CheckpointsRecord, EnergyRecord, RankRecord


class QualityEvaluation(Record, frozen=True, kw_only=True):
    """Result of one evaluation on the whole evaluation split after `samples_count` training samples."""

    samples_count: PositiveCount
    auc: Share | None = None
    """ROC AUC of the evaluation, where it is the benchmark's quality metric; else None."""
    accuracy: Share | None = None
    """Accuracy of the evaluation (the mean over tasks), where it is the benchmark's quality metric; else None."""
    log_loss: Annotated[float, Meta(ge=0, description="Mean over samples, in nats.")]
    normalised_entropy: Annotated[
        float, Meta(ge=0, description="Log loss over the entropy of the split's base rate, as torchrec defines it.")
    ]
    duration_s: Amount


class QualityProcess(Record, frozen=True, kw_only=True):
    """Training and evaluations of one fresh process; if there are several ranks, of all ranks together."""

    num_samples: Annotated[int, Meta(ge=1, description="Samples trained on: whole batches.")]
    training_flop: Annotated[int, Meta(ge=0, description="FLOP of all samples, computed from the configuration.")]
    train_s: Amount
    evaluations: Annotated[tuple[QualityEvaluation, ...], Meta(min_length=1)]
    hyperparameters: dict[str, Any]
    peak_device_bytes: Count | None
    peak_reserved_bytes: Count | None = None
    peak_rss_bytes: PositiveCount | None
    energy: EnergyRecord | None
    ranks: tuple[RankRecord, ...]
    started_utc: str | None = None
    """Time at which the process started, by the system's clock. The start times of two measurements' processes show
    whether the measurements alternated. None in files of earlier versions."""
    ended_utc: str | None = None
    checkpoints: CheckpointsRecord | None = None

    def __getattr__(self, name: str) -> Any:
        """Return the value of the quality metric named `name` at the last evaluation; None where another metric was
        measured."""
        if metric_of_member(name) is None:
            raise AttributeError(name)
        return getattr(self.evaluations[-1], name)

    @property
    def log_loss(self) -> float:
        """Return the log loss on the evaluation split after all training samples, in nats."""
        return self.evaluations[-1].log_loss

    @property
    def normalised_entropy(self) -> float:
        """Return the normalised entropy on the evaluation split after all training samples."""
        return self.evaluations[-1].normalised_entropy


def _measure(metric: Metric) -> Measure:
    return Measure(
        title="Quality",
        value=metric.member,
        unit=metric.member,
        scale="difference",
        direction="higher",
        min_effect=0.001,
        columns=(
            Column(member="num_samples", title="Samples", unit=None),
            Column(member=metric.member, title=metric.capital, unit=metric.member),
            Column(member="log_loss", title="Log loss", unit="nat"),
            Column(member="normalised_entropy", title="Normalised entropy", unit=None),
            Column(member="training_flop", title="Training FLOP", unit="FLOP", origin="computed"),
            Column(member="train_s", title="Training", unit="s"),
            Column(member="peak_rss_bytes", title="Peak memory", unit="B"),
        ),
    )


_MEASURES: Mapping[str, Measure] = {metric.member: _measure(metric) for metric in METRICS.values()}


class QualityRecord(ProcessMeasurement, frozen=True, kw_only=True):
    """Quality metric, log loss and normalised entropy of a benchmark's model after a fixed number of training
    samples, measured in fresh processes."""

    MEASURE: ClassVar[Measure] = _MEASURES[METRICS[ROC_AUC].member]
    OTHER_MEASURES: ClassVar[Mapping[str, Measure]] = _MEASURES
    ASKED: ClassVar[tuple[str, ...]] = ("data_kind", "dataset_sha256", "eval_samples", "num_samples")
    MUST_AGREE: ClassVar[Mapping[str, str]] = {
        "dataset_sha256": "different datasets: {} and {}",
        "eval_samples": "different evaluation splits: {} and {}",
        "num_samples": "trained on different numbers of samples: {} and {}",
    }

    data_kind: str
    dataset_sha256: str | None
    eval_samples: PositiveCount
    computed: ModelCosts
    processes: Annotated[tuple[QualityProcess, ...], Meta(min_length=1)]

    @property
    def measure(self) -> Measure:
        """Return the quantity by which quality measurements are compared: the quality metric in the first process's
        entry. If the entry has several metrics, the first of them in the order of METRICS is returned."""
        found = (measure for member, measure in _MEASURES.items() if getattr(self.processes[0], member) is not None)
        return next(found, _MEASURES["accuracy"])
