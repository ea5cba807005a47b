"""What a calibration found: the four conditions of a good target, the table, the reference convergence points."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.calibration.runs import CalibrationResult
from reports.document.blocks import Block, Bullets, Heading, Prose, text_table
from rules.benchmarks.loader import Benchmark

MEAN_EPOCHS = (0.5, 0.85)
COEFFICIENT_OF_VARIATION = (0.02, 0.10)
MAX_EVAL_SHARE = 0.15
MIN_ORACLE_MARGIN = 0.01
_DEMANDS = {
    "a": f"every seed, within one epoch, at {MEAN_EPOCHS[0]:.2f} to {MEAN_EPOCHS[1]:.2f} of it on average, with a "
    f"coefficient of variation of {100 * COEFFICIENT_OF_VARIATION[0]:g} to {100 * COEFFICIENT_OF_VARIATION[1]:g} %",
    "b": "no simpler model reaches the target at any evaluation of an epoch, at any learning rate tried",
    "c": f"at least {MIN_ORACLE_MARGIN:g} below the best reachable quality, which generated data knows",
    "d": f"less than {100 * MAX_EVAL_SHARE:g} %; fewer evaluations or evaluation samples take less",
}
_BATCH_SIZE_COLUMNS = (
    "batch size", "learning rate", "seeds", "reached", "mean epochs", "min to max", "CV", "final AUC, mean (min)",
    "eval share", "epoch, 1 thread",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchSizeSummary:
    """Reference runs at one batch size and its tuned learning rate, one per seed."""

    global_batch_size: int
    opt_base_learning_rate: float
    seeds: tuple[int, ...]
    epochs_to_converge: tuple[float | None, ...]
    final_qualities: tuple[float, ...]
    quality_mean: tuple[float, ...]
    """Per evaluation, over seeds."""
    quality_stdev: tuple[float, ...]
    eval_share: float
    epoch_s: float

    @property
    def converged(self) -> tuple[float, ...]:
        return tuple(epochs for epochs in self.epochs_to_converge if epochs is not None)

    @property
    def mean_epochs(self) -> float | None:
        return statistics.fmean(self.converged) if self.converged else None

    @property
    def coefficient_of_variation(self) -> float | None:
        """Of samples to converge, which is proportional to epochs."""
        return _variation(self.converged)


@dataclass(frozen=True, kw_only=True, slots=True)
class BaselineSummary:
    """The best quality that a baseline reached at any evaluation, over its grid of learning rates."""

    model: str
    best_quality: float
    opt_base_learning_rate: float
    learning_rates: tuple[float, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Proposal:
    """The target that the runs at the definition's own batch size suggest, and what it would be; None where none."""

    target: float | None
    mean_epochs: float | None = None
    coefficient_of_variation: float | None = None
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Calibration:
    """All that one calibration found."""

    benchmark: str
    version: int
    target: float
    oracle_quality: float | None
    default_batch_size: int
    batch_sizes: tuple[BatchSizeSummary, ...]
    baselines: tuple[BaselineSummary, ...]
    tuning: tuple[tuple[int, float, float | None, float], ...]
    """(batch size, learning rate, mean epochs to converge or None, mean final quality)."""
    proposal: Proposal | None = None

    @property
    def default(self) -> BatchSizeSummary:
        return next(s for s in self.batch_sizes if s.global_batch_size == self.default_batch_size)

    def conditions(self) -> dict[str, tuple[bool | None, str]]:
        """Return each condition by letter: whether it holds (None where it cannot be said), and the numbers."""
        default, target = self.default, self.target
        mean, variation = default.mean_epochs, default.coefficient_of_variation
        all_converged = len(default.converged) == len(default.seeds)
        return {
            "a": (
                all_converged and _is_met_well(mean, variation),
                f"{len(default.converged)} of {len(default.seeds)} seeds reach {target:g} within one epoch, at "
                f"{_number(mean, 3)} of it on average, coefficient of variation {_percent(variation)}",
            ),
            "b": (
                all(baseline.best_quality < target for baseline in self.baselines) if self.baselines else None,
                "best of "
                + ", ".join(f"{c.model.replace('_', ' ')} {c.best_quality:.4f}" for c in self.baselines)
                + f", target {target:g}",
            ),
            "c": (
                None if self.oracle_quality is None else target <= self.oracle_quality - MIN_ORACLE_MARGIN,
                f"oracle {_number(self.oracle_quality, 4)}, target {target:g}",
            ),
            "d": (
                default.eval_share < MAX_EVAL_SHARE,
                f"evaluations take {_percent(default.eval_share)} of the timed run",
            ),
        }


def propose_target(
    results: Sequence[CalibrationResult],
    evals_per_epoch: int,
    baselines: Sequence[BaselineSummary],
    oracle_quality: float | None,
) -> Proposal:
    """Find the target, in thousandths, that holds (a) to (c) and is met nearest the middle of what (a) demands.

    `results` are the reference's at one batch size and learning rate, one per seed.
    """
    low = max((baseline.best_quality for baseline in baselines), default=0.5)
    reached = min(result.best_quality for result in results)
    high = reached if oracle_quality is None else min(reached, oracle_quality - MIN_ORACLE_MARGIN)
    found: list[tuple[float, float, float, float]] = []
    for target in (number / 1000 for number in range(int(1000 * low) + 1, int(1000 * high) + 1)):
        epochs = [(_first_at(result, target) + 1) / evals_per_epoch for result in results]
        mean, variation = statistics.fmean(epochs), _variation(epochs)
        if _is_met_well(mean, variation):
            found.append((abs(mean - statistics.fmean(MEAN_EPOCHS)), target, mean, variation or 0.0))
    if not found:
        return Proposal(
            target=None,
            reason=f"No target does: simpler models reach {low:.4f}, every seed of the reference {reached:.4f}"
            + ("" if oracle_quality is None else f", the oracle {oracle_quality:.4f}")
            + f", and between them these {len(results)} seeds meet none as (a) demands. Change the learning rate or "
            "the batch size, train on more samples, or give the model more to learn.",
        )
    _, target, mean, variation = min(found)
    return Proposal(
        target=target,
        mean_epochs=mean,
        coefficient_of_variation=variation,
        reason=f"A target of {target:g} would be met at {mean:.3f} of the epoch on average, coefficient of variation "
        f"{_percent(variation)}; {found[0][1]:g} to {found[-1][1]:g} hold (a) to (c).",
    )


def _first_at(result: CalibrationResult, target: float) -> int:
    return next(index for index, quality in enumerate(result.qualities) if quality >= target)


def _is_met_well(mean: float | None, variation: float | None) -> bool:
    return (
        mean is not None
        and variation is not None
        and MEAN_EPOCHS[0] <= mean <= MEAN_EPOCHS[1]
        and COEFFICIENT_OF_VARIATION[0] <= variation <= COEFFICIENT_OF_VARIATION[1]
    )


def _variation(epochs: Sequence[float]) -> float | None:
    return statistics.stdev(epochs) / statistics.fmean(epochs) if len(epochs) > 1 else None


def summarise_batch_size(benchmark: Benchmark, results: Sequence[CalibrationResult]) -> BatchSizeSummary:
    """Summarise `results`: runs of one batch size and learning rate that differ in their seed."""
    num_evals = min(len(result.qualities) for result in results)
    columns = [[result.qualities[i] for result in results] for i in range(num_evals)]
    eval_s, train_s = sum(result.eval_s for result in results), sum(result.train_s for result in results)
    return BatchSizeSummary(
        global_batch_size=results[0].run.global_batch_size,
        opt_base_learning_rate=results[0].run.opt_base_learning_rate,
        seeds=tuple(result.run.seed for result in results),
        epochs_to_converge=tuple(result.epochs_to_converge(benchmark) for result in results),
        final_qualities=tuple(result.final_quality for result in results),
        quality_mean=tuple(statistics.fmean(column) for column in columns),
        quality_stdev=tuple(statistics.stdev(column) if len(column) > 1 else 0.0 for column in columns),
        eval_share=eval_s / (eval_s + train_s) if eval_s + train_s > 0 else math.nan,
        epoch_s=(eval_s + train_s) / len(results),
    )


def summarise_baseline(results: Sequence[CalibrationResult]) -> BaselineSummary:
    best = max(results, key=lambda result: result.best_quality)
    return BaselineSummary(
        model=best.run.model,
        best_quality=best.best_quality,
        opt_base_learning_rate=best.run.opt_base_learning_rate,
        learning_rates=tuple(sorted({result.run.opt_base_learning_rate for result in results})),
    )


def tuned_learning_rate(benchmark: Benchmark, results: Sequence[CalibrationResult]) -> float:
    """The learning rate whose runs all converge and do so earliest on average; ties go to the better quality."""

    def rank(learning_rate: float) -> tuple[int, float, float]:
        runs = [result for result in results if result.run.opt_base_learning_rate == learning_rate]
        converged = _converged(benchmark, runs)
        mean = statistics.fmean(converged) if converged else math.inf
        return (len(runs) - len(converged), mean, -statistics.fmean(result.final_quality for result in runs))

    return min({result.run.opt_base_learning_rate for result in results}, key=rank)


def _converged(benchmark: Benchmark, runs: Sequence[CalibrationResult]) -> list[float]:
    return [epochs for run in runs if (epochs := run.epochs_to_converge(benchmark)) is not None]


def tuning_rows(
    benchmark: Benchmark, results: Sequence[CalibrationResult]
) -> list[tuple[int, float, float | None, float]]:
    """Return (batch size, learning rate, mean epochs to converge or None where a seed failed, mean final quality)."""
    rows = []
    for batch_size, rate in sorted({(r.run.global_batch_size, r.run.opt_base_learning_rate) for r in results}):
        runs = [r for r in results if (r.run.global_batch_size, r.run.opt_base_learning_rate) == (batch_size, rate)]
        converged = _converged(benchmark, runs)
        mean = statistics.fmean(converged) if len(converged) == len(runs) else None
        rows.append((batch_size, rate, mean, statistics.fmean(run.final_quality for run in runs)))
    return rows


def reference_convergence_points(
    benchmark: Benchmark, calibration: Calibration, *, when: str, platform: str
) -> dict[str, Any]:
    """Return RCPs in mlperf_logging's form, one per batch size at which every seed converged, and the seeds used."""
    hyperparams = {
        key: value
        for key, value in benchmark.sections["train"].items()
        if key.startswith("opt_") and key != "opt_base_learning_rate"
    }
    return {
        f"{benchmark.name}_ref_{summary.global_batch_size}": {
            "Benchmark": benchmark.name,
            "Creator": "dlrmbench",
            "When": when,
            "Platform": platform,
            "Precision": "FP32",
            "BS": summary.global_batch_size,
            "Hyperparams": {**hyperparams, "opt_base_learning_rate": summary.opt_base_learning_rate},
            "Epochs to converge": list(summary.converged),
            "Seeds": list(summary.seeds),
        }
        for summary in calibration.batch_sizes
        if len(summary.converged) == len(summary.seeds)
    }


def calibration_blocks(calibration: Calibration) -> tuple[Block, ...]:
    """Show conditions, batch sizes, baselines, curve, tuning."""
    default = calibration.default
    marks: Mapping[bool | None, str] = {True: "holds", False: "does not hold", None: "not measured"}
    conditions = calibration.conditions().items()
    heading = f"{calibration.benchmark} version {calibration.version}: target {calibration.target:g}"
    baselines = [
        (
            baseline.model.replace("_", " "),
            f"{baseline.best_quality:.4f}",
            f"{baseline.opt_base_learning_rate:g}",
            ", ".join(f"{rate:g}" for rate in baseline.learning_rates),
        )
        for baseline in calibration.baselines
    ]
    num_evals = len(default.quality_mean)
    curve = [
        (f"{number / num_evals:.2f}", f"{mean:.4f}", f"{stdev:.4f}")
        for number, (mean, stdev) in enumerate(zip(default.quality_mean, default.quality_stdev, strict=True), start=1)
    ]
    tuning = [
        (size, f"{rate:g}", "not all reach it" if mean is None else f"{mean:.3f}", f"{final:.4f}")
        for size, rate, mean, final in calibration.tuning
    ]
    return (
        Heading(text=heading),
        Bullets(
            items=tuple(
                f"({letter}) {marks[holds]}: {text}. Demanded: {_DEMANDS[letter]}."
                for letter, (holds, text) in conditions
            )
        ),
        *([Prose(text=calibration.proposal.reason)] if calibration.proposal is not None else []),
        text_table(_BATCH_SIZE_COLUMNS, map(_batch_size_row, calibration.batch_sizes), numbers=_BATCH_SIZE_COLUMNS),
        text_table(
            ("model", "best AUC in the epoch", "at learning rate", "learning rates tried"),
            [
                *baselines,
                ("reference", f"{max(default.final_qualities):.4f}", f"{default.opt_base_learning_rate:g}", None),
                ("oracle", _number(calibration.oracle_quality, 4), None, None),
            ],
        ),
        text_table(
            ("epoch", "mean", "stdev"),
            curve,
            numbers=("epoch", "mean", "stdev"),
            caption=f"AUC over {len(default.seeds)} seeds at batch size {calibration.default_batch_size}:",
        ),
        text_table(
            ("batch size", "learning rate", "mean epochs", "final AUC"),
            tuning,
            numbers=("batch size", "learning rate", "mean epochs", "final AUC"),
            caption="Tuning (other seeds than above):",
        ),
    )


def _batch_size_row(summary: BatchSizeSummary) -> tuple[object, ...]:
    converged, final = summary.converged, summary.final_qualities
    return (
        summary.global_batch_size,
        f"{summary.opt_base_learning_rate:g}",
        len(summary.seeds),
        len(converged),
        _number(summary.mean_epochs, 3),
        f"{min(converged):.2f} to {max(converged):.2f}" if converged else None,
        _percent(summary.coefficient_of_variation),
        f"{statistics.fmean(final):.4f} ({min(final):.4f})",
        _percent(summary.eval_share),
        f"{summary.epoch_s:.1f} s",
    )


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"
