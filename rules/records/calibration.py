"""NAME.calibration.json holds the reference training runs that justify the quality target of the benchmark NAME. The
file exists only for a target that is not MLPerf's. It lies beside the benchmark's definition (a TOML file).

`dlrmbench calibrate` writes the file. For a benchmark that dlrmbench ships, seeds that dlrmbench derives for a run
set differ from the seeds in the file. The precision `auto` becomes bf16 only if all of the file's bf16 runs at the
run set's batch size and learning rate met the target.
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
    """Reference runs of a calibration at one global batch size with its tuned learning rate: one run per seed, in the
    order of the seeds."""

    global_batch_size: PositiveCount
    opt_base_learning_rate: PositiveAmount
    seeds: Annotated[tuple[Count, ...], Meta(min_length=1)]
    epochs_to_converge: tuple[Epochs | None, ...]
    """Epochs that the reference run of each seed took to reach the quality target; None for a run that did not reach
    the target within its one epoch."""
    final_qualities: tuple[Share, ...]
    quality_mean: tuple[Share, ...]
    """Mean over the seeds of the quality at each evaluation of the reference runs."""
    quality_stdev: tuple[float, ...]
    eval_share: Share | None
    """Share of an epoch's wall-clock time that goes into evaluation; None where no time was measured."""
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
        """Return the coefficient of variation, over the reference runs, of the epochs (and so of the samples) to
        converge; None for fewer than two converged runs."""
        return variation(self.converged)


class BaselineSummary(Record, frozen=True, kw_only=True):
    """Best quality that a simpler baseline model reached at any evaluation with any of the learning rates tried, for
    comparison with the quality target."""

    model: str
    best_quality: Share
    opt_base_learning_rate: PositiveAmount
    learning_rates: tuple[PositiveAmount, ...]


class TuningRow(Record, frozen=True, kw_only=True):
    """One learning rate of the grid from which a batch size's learning rate was chosen, with the results of the
    tuning runs."""

    global_batch_size: PositiveCount
    opt_base_learning_rate: PositiveAmount
    mean_epochs: Epochs | None
    """Mean epochs to reach the quality target over the tuning runs at this learning rate; None where one of their
    seeds did not converge."""
    mean_final_quality: Share


class Proposal(Record, frozen=True, kw_only=True):
    """Quality target that a calibration suggests from the reference runs at the batch size in the benchmark's
    definition, and why. `target` is None if no quality meets the conditions. `mean_epochs` and
    `coefficient_of_variation` describe the epochs in which the reference runs reach the target."""

    target: Share | None
    mean_epochs: Epochs | None
    coefficient_of_variation: float | None
    reason: str


class Condition(Record, frozen=True, kw_only=True):
    """One of the four conditions that a calibration asks of a quality target.

    - (a) Runs with the target converge, with little variation.
    - (b) The target is above the best quality of simpler models.
    - (c) The target is below the quality of the oracle, the teacher model that labelled generated data.
    - (d) Evaluations take a small share of the timed run.
    """

    letter: str
    holds: bool | None
    """Whether the quality target meets this condition of the calibration; None where that cannot be decided."""
    found: str
    demanded: str


class CalibrationRecord(Document, frozen=True, kw_only=True):
    """Result of one `dlrmbench calibrate`: the reference training runs, the suggested quality target, and digests of
    the benchmark definition and of the code with which the runs were made."""

    benchmark: str
    version: PositiveCount
    definition_sha256: Sha256
    is_calibrated: bool = True
    """Whether a result's convergence may be tested against the reference runs in the file; False for 'calibrate
    --quick', which makes few runs and tunes no learning rate."""
    target: Share
    metric: MetricName = ROC_AUC
    """Quality metric (such as ROC AUC) in which the calibration's file states the target and the quality of every
    run."""
    precision: Annotated[str, Meta(max_length=20)] = "fp32"
    """Numerical precision of the matrix products of all reference runs of the calibration."""
    created_utc: str
    platform: str
    code_sha256: tuple[Sha256 | None, ...]
    """Digests of the harness's code that made the reference runs, each digest once; None among them stands for runs
    made before the digest was recorded."""
    base_seed: Count
    """Seed from which the seeds of all reference runs are derived; the seeds of the runs that tuned learning rates
    are derived otherwise."""
    tuning_seeds: tuple[Count, ...]
    num_reference_runs: PositiveCount
    """Number of runs at each batch size that serve as its reference convergence points (RCPs): the runs of the first
    seeds."""
    oracle_quality: Share | None
    default_batch_size: PositiveCount
    batch_sizes: Annotated[tuple[BatchSizeSummary, ...], Meta(min_length=1)]
    baselines: tuple[BaselineSummary, ...]
    tuning: tuple[TuningRow, ...]
    proposal: Proposal | None
    conditions: tuple[Condition, ...]
    preflight: tuple[PreflightCheck, ...] = ()
    """Checks of the system (clock, load, memory) made before the command that wrote the calibration's file. Empty in
    files of earlier versions."""
    loads: tuple[LoadRecord, ...] = ()
    """Load that other processes put on the system while the calibration's runs trained. Empty in files of earlier
    versions."""

    def __post_init__(self) -> None:
        if all(summary.global_batch_size != self.default_batch_size for summary in self.batch_sizes):
            raise ValueError("batch_sizes with the default_batch_size among them")

    @property
    def default(self) -> BatchSizeSummary:
        """Return the reference runs at the default batch size, by which the conditions on the target are judged."""
        return next(s for s in self.batch_sizes if s.global_batch_size == self.default_batch_size)

    def is_met(self, precision: str, global_batch_size: int, opt_base_learning_rate: float) -> bool:
        """Return whether the calibration has reference runs at a precision, batch size and learning rate, and all of
        them met the target."""
        asked = (global_batch_size, opt_base_learning_rate)
        found = [s for s in self.batch_sizes if (s.global_batch_size, s.opt_base_learning_rate) == asked]
        are_met = bool(found) and all(len(s.converged) == len(s.seeds) for s in found)
        return self.is_calibrated and self.precision == precision and are_met


def variation(values: tuple[float, ...]) -> float | None:
    """Return the coefficient of variation (sample standard deviation over mean) of positive values; None for fewer
    than two values."""
    return statistics.stdev(values) / statistics.fmean(values) if len(values) > 1 else None
