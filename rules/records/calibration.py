"""NAME.calibration.json: the reference runs on which a benchmark's target rests. Own benchmarks ship it beside their
definition.

`calibrate` writes the file; derived seeds and the choice of a precision take it into account.
"""

import statistics
from typing import Annotated

from msgspec import Meta

from rules.records.codec import Count, Document, PositiveAmount, PositiveCount, Record, Sha256, Share
from rules.records.load import LoadRecord
from rules.records.metrics import ROC_AUC, MetricName
from rules.records.run_set import PreflightCheck

Epochs = Annotated[float, Meta(gt=0)]


class BatchSizeSummary(Record, frozen=True, kw_only=True):
    """Reference runs at one batch size and its tuned learning rate, one per seed, in the order of the seeds."""

    global_batch_size: PositiveCount
    opt_base_learning_rate: PositiveAmount
    seeds: Annotated[tuple[Count, ...], Meta(min_length=1)]
    epochs_to_converge: tuple[Epochs | None, ...]
    """Epochs to the target by seed; None where a whole epoch did not reach the target."""
    final_qualities: tuple[Share, ...]
    quality_mean: tuple[Share, ...]
    """Mean quality of each evaluation over the seeds."""
    quality_stdev: tuple[float, ...]
    eval_share: Share | None
    """Share of an epoch's time that goes into evaluation; None where no time was measured."""
    epoch_s: float

    def __post_init__(self) -> None:
        if not len(self.seeds) == len(self.epochs_to_converge) == len(self.final_qualities):
            raise ValueError(f"{len(self.seeds)} epochs_to_converge and final_qualities, one per seed")

    @property
    def converged(self) -> tuple[float, ...]:
        return tuple(epochs for epochs in self.epochs_to_converge if epochs is not None)

    @property
    def mean_epochs(self) -> float | None:
        return statistics.fmean(self.converged) if self.converged else None

    @property
    def coefficient_of_variation(self) -> float | None:
        """Return the coefficient of variation of epochs (and so of samples) to converge; None for fewer than two
        converged runs."""
        return variation(self.converged)


class BaselineSummary(Record, frozen=True, kw_only=True):
    """The best quality that a simpler model reached at any evaluation, over its grid of learning rates."""

    model: str
    best_quality: Share
    opt_base_learning_rate: PositiveAmount
    learning_rates: tuple[PositiveAmount, ...]


class TuningRow(Record, frozen=True, kw_only=True):
    """A point of the grid from which the learning rate of a batch size was chosen."""

    global_batch_size: PositiveCount
    opt_base_learning_rate: PositiveAmount
    mean_epochs: Epochs | None
    """Mean epochs to converge; None where a seed did not converge."""
    mean_final_quality: Share


class Proposal(Record, frozen=True, kw_only=True):
    """Target suggested by the runs at the definition's own batch size, with their epochs and spread at that target;
    None where no target qualifies."""

    target: Share | None
    mean_epochs: Epochs | None
    coefficient_of_variation: float | None
    reason: str


class Condition(Record, frozen=True, kw_only=True):
    """One of the conditions of a good target: (a) convergence, (b) simpler models, (c) oracle, (d) evaluations."""

    letter: str
    holds: bool | None
    """Whether the condition holds; None where that cannot be decided."""
    found: str
    demanded: str


class CalibrationRecord(Document, frozen=True, kw_only=True):
    """Result of one calibration, with the definition and the code that it was made with."""

    benchmark: str
    version: PositiveCount
    definition_sha256: Sha256
    is_calibrated: bool = True
    """Whether the points may serve as reference; False for 'calibrate --quick'."""
    target: Share
    metric: MetricName = ROC_AUC
    """Metric of all qualities in this file."""
    precision: Annotated[str, Meta(max_length=20)] = "fp32"
    """Precision of the matrix products of all runs."""
    created_utc: str
    platform: str
    code_sha256: tuple[Sha256 | None, ...]
    """Digests of the code that made the runs; None for runs made before the digest was recorded."""
    base_seed: Count
    """Seed from which the seeds of all reference runs are derived; the tuning seeds are derived otherwise."""
    tuning_seeds: tuple[Count, ...]
    num_reference_runs: PositiveCount
    """Number of seeds, the first ones of each batch size, whose runs are its reference convergence points."""
    oracle_quality: Share | None
    default_batch_size: PositiveCount
    batch_sizes: Annotated[tuple[BatchSizeSummary, ...], Meta(min_length=1)]
    baselines: tuple[BaselineSummary, ...]
    tuning: tuple[TuningRow, ...]
    proposal: Proposal | None
    conditions: tuple[Condition, ...]
    preflight: tuple[PreflightCheck, ...] = ()
    """Environment check before the command that wrote this file. Empty in files of earlier versions."""
    loads: tuple[LoadRecord, ...] = ()
    """Other load on the system during the training for this file. Empty in files of earlier versions."""

    def __post_init__(self) -> None:
        if all(summary.global_batch_size != self.default_batch_size for summary in self.batch_sizes):
            raise ValueError("batch_sizes with the default_batch_size among them")

    @property
    def default(self) -> BatchSizeSummary:
        """Return the summary of the default batch size, by which the conditions are judged."""
        return next(s for s in self.batch_sizes if s.global_batch_size == self.default_batch_size)

    def is_met(self, precision: str, global_batch_size: int, opt_base_learning_rate: float) -> bool:
        """Return whether there are runs of this precision, batch size and learning rate, and all of them met the
        target."""
        asked = (global_batch_size, opt_base_learning_rate)
        found = [s for s in self.batch_sizes if (s.global_batch_size, s.opt_base_learning_rate) == asked]
        are_met = bool(found) and all(len(s.converged) == len(s.seeds) for s in found)
        return self.is_calibrated and self.precision == precision and are_met


def variation(values: tuple[float, ...]) -> float | None:
    """Return the coefficient of variation of positive values, by the sample standard deviation; None for fewer than
    two."""
    return statistics.stdev(values) / statistics.fmean(values) if len(values) > 1 else None
