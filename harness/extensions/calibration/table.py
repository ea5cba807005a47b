"""Judge and show the results of a calibration: the four conditions of a good target quality, tables, and reference
convergence points."""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from harness.extensions.calibration.runs import CalibrationResult
from reports.document.blocks import Block, Bullets, Heading, Prose, text_table
from reports.parts.load import environment_words
from rules.benchmarks.loader import Benchmark
from rules.errors import DefinitionError
from rules.logs import keys
from rules.records.calibration import (
    BaselineSummary,
    BatchSizeSummary,
    CalibrationRecord,
    Condition,
    Proposal,
    TuningRow,
    variation,
)
from rules.records.metrics import METRICS

MEAN_EPOCHS = (0.5, 0.85)
MAX_VARIATION = 0.05
MIN_SEEDS = 40
"""Minimum number of seeds for judging condition (a) of a good target, reliable convergence. The condition limits the
coefficient of variation of epochs to converge. With 40 seeds that coefficient is known to within a ninth of its
value; with 20 seeds it is known only to within a sixth."""
MAX_EVAL_SHARE = 0.15
MIN_MARGIN = 0.01
"""Minimum distance, in the benchmark's metric, of the target quality above simpler models, and of the oracle (the
best reachable quality) above the target quality."""
_DEMANDS = {
    "a": f"every seed of at least {MIN_SEEDS}, within one epoch, at {MEAN_EPOCHS[0]:.2f} to {MEAN_EPOCHS[1]:.2f} of "
    f"it on average, with a coefficient of variation of at most {100 * MAX_VARIATION:g} %",
    "b": f"simpler models at least {MIN_MARGIN:g} below the target at every evaluation of an epoch, at every "
    "learning rate tried",
    "c": f"at least {MIN_MARGIN:g} below the best reachable quality, which generated data knows",
    "d": f"less than {100 * MAX_EVAL_SHARE:g} %; fewer evaluations or evaluation samples take less",
}
_BATCH_SIZE_COLUMNS = (
    "batch size", "learning rate", "seeds", "reached", "mean epochs", "min to max", "CV", "final {}, mean (min)",
    "eval share", "epoch, 1 thread",
)  # fmt: skip

_TUNING = "Tuning (other seeds than above):"


def judge_conditions(
    target: float,
    default: BatchSizeSummary,
    baselines: Sequence[BaselineSummary],
    oracle_quality: float | None,
    *,
    is_quick: bool = False,
) -> tuple[Condition, ...]:
    """Judge the four conditions of a good target quality: reliable convergence, distance above simpler models,
    distance below the oracle, short evaluations. Return for each whether it holds (None if unknown), and the numbers
    that show it.

    `default` sums up the reference implementation's runs at the batch size of the benchmark definition. A quick
    calibration gives simpler models only one learning rate; it can refute the condition on simpler models, but not
    show it.
    """
    is_above_all = all(is_above(target, baseline.best_quality) for baseline in baselines)
    return (
        Condition(
            letter="a",
            holds=_converges_well(default),
            found=f"{len(default.converged)} of {len(default.seeds)} seeds reach {target:g} within one epoch, at "
            f"{_number(default.mean_epochs, 3)} of it on average, coefficient of variation "
            f"{_percent(default.coefficient_of_variation)}",
            demanded=_DEMANDS["a"],
        ),
        Condition(
            letter="b",
            holds=None if not baselines or (is_quick and is_above_all) else is_above_all,
            found="best of "
            + ", ".join(f"{baseline.model.replace('_', ' ')} {baseline.best_quality:.4f}" for baseline in baselines)
            + f", target {target:g}",
            demanded=_DEMANDS["b"],
        ),
        Condition(
            letter="c",
            holds=None if oracle_quality is None else is_above(oracle_quality, target),
            found=f"oracle {_number(oracle_quality, 4)}, target {target:g}",
            demanded=_DEMANDS["c"],
        ),
        Condition(
            letter="d",
            holds=None if default.eval_share is None else default.eval_share < MAX_EVAL_SHARE,
            found=f"evaluations take {_percent(default.eval_share)} of the timed run",
            demanded=_DEMANDS["d"],
        ),
    )


def _converges_well(default: BatchSizeSummary) -> bool | None:
    all_converged = len(default.converged) == len(default.seeds)
    if not (all_converged and _is_met_well(default.mean_epochs, default.coefficient_of_variation)):
        return False
    return True if len(default.seeds) >= MIN_SEEDS else None


def is_above(quality: float, other: float) -> bool:
    """Return whether a quality is clearly above another, by at least MIN_MARGIN."""
    return quality - other >= MIN_MARGIN - 1e-12


def propose_target(
    results: Sequence[CalibrationResult],
    evals_per_epoch: int,
    baselines: Sequence[BaselineSummary],
    oracle_quality: float | None,
) -> Proposal:
    """Propose a target quality that meets conditions (a) to (c) of a good target: (a) on convergence, (b) on simpler
    models and (c) on the oracle. Candidates are multiples of 0.001. Of the candidates that meet all three conditions,
    the one is proposed whose mean number of epochs to converge is nearest to the middle of the range MEAN_EPOCHS.

    `results` are those of the reference implementation at one batch size and learning rate, one per seed.
    """
    low = max((baseline.best_quality for baseline in baselines), default=0.5)
    reached = min(result.best_quality for result in results)
    found: list[tuple[float, float, float, float]] = []
    for target in (number / 1000 for number in range(int(1000 * low) + 1, int(1000 * reached) + 1)):
        if any(not is_above(target, baseline.best_quality) for baseline in baselines):
            continue
        if oracle_quality is not None and not is_above(oracle_quality, target):
            continue
        epochs = [result.epochs_at(_first_at(result, target), evals_per_epoch) for result in results]
        mean, spread = statistics.fmean(epochs), variation(tuple(epochs))
        if _is_met_well(mean, spread):
            found.append((abs(mean - statistics.fmean(MEAN_EPOCHS)), target, mean, spread or 0.0))
    if not found:
        return Proposal(
            target=None,
            mean_epochs=None,
            coefficient_of_variation=None,
            reason=f"No target does: simpler models reach {low:.4f}, every seed of the reference {reached:.4f}"
            + ("" if oracle_quality is None else f", the oracle {oracle_quality:.4f}")
            + f", and between them these {len(results)} seeds meet none as (a) demands. Change the learning rate or "
            "the batch size, train on more samples, or give the model more to learn.",
        )
    _, target, mean, spread = min(found)
    return Proposal(
        target=target,
        mean_epochs=mean,
        coefficient_of_variation=spread,
        reason=f"A target of {target:g} would be met at {mean:.3f} of the epoch on average, coefficient of variation "
        f"{_percent(spread)}; {found[0][1]:g} to {found[-1][1]:g} hold (a) to (c) by these {len(results)} seeds.",
    )


def _first_at(result: CalibrationResult, target: float) -> int:
    return next(index for index, quality in enumerate(result.qualities) if quality >= target)


def _is_met_well(mean: float | None, spread: float | None) -> bool:
    return (
        mean is not None
        and spread is not None
        and MEAN_EPOCHS[0] <= mean <= MEAN_EPOCHS[1]
        and spread <= MAX_VARIATION
    )


def summarise_batch_size(benchmark: Benchmark, results: Sequence[CalibrationResult]) -> BatchSizeSummary:
    """Summarise the results of a calibration's runs at one batch size and learning rate, which differ in their
    seed."""
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
        eval_share=eval_s / (eval_s + train_s) if eval_s + train_s > 0 else None,
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
    """Return the learning rate at which the most runs meet the target quality. If several rates tie, the one is
    returned whose runs meet the target after the fewest epochs on average. If those also tie, the one with the
    highest mean final quality is returned."""

    def rank(learning_rate: float) -> tuple[int, float, float]:
        runs = [result for result in results if result.run.opt_base_learning_rate == learning_rate]
        converged = _converged(benchmark, runs)
        mean = statistics.fmean(converged) if converged else math.inf
        return (len(runs) - len(converged), mean, -statistics.fmean(result.final_quality for result in runs))

    return min({result.run.opt_base_learning_rate for result in results}, key=rank)


def _converged(benchmark: Benchmark, runs: Sequence[CalibrationResult]) -> list[float]:
    return [epochs for run in runs if (epochs := run.epochs_to_converge(benchmark)) is not None]


def tuning_rows(benchmark: Benchmark, results: Sequence[CalibrationResult]) -> tuple[TuningRow, ...]:
    """Return the rows of the tuning table, sorted by batch size and learning rate. Each row has the mean epochs to
    the target (None where not all runs reach it) and the mean final quality."""
    rows = []
    for batch_size, rate in sorted({(r.run.global_batch_size, r.run.opt_base_learning_rate) for r in results}):
        runs = [r for r in results if (r.run.global_batch_size, r.run.opt_base_learning_rate) == (batch_size, rate)]
        converged = _converged(benchmark, runs)
        row = TuningRow(
            global_batch_size=batch_size,
            opt_base_learning_rate=rate,
            mean_epochs=statistics.fmean(converged) if len(converged) == len(runs) else None,
            mean_final_quality=statistics.fmean(run.final_quality for run in runs),
        )
        rows.append(row)
    return tuple(rows)


def reference_convergence_points(benchmark: Benchmark, calibration: CalibrationRecord) -> dict[str, Any]:
    """Return reference convergence points (RCPs) in mlperf_logging's form, with their seeds, one for each batch size
    at which every seed converged.

    RCPs of a quick calibration have "Calibrated": false, and are not a reference. As in mlperf_logging, "Epochs to
    converge" are samples if the benchmark counts convergence in samples.
    """
    num_runs = calibration.num_reference_runs
    hyperparams = {
        key: value
        for key, value in benchmark.sections["train"].items()
        if key.startswith("opt_") and key != "opt_base_learning_rate"
    }
    return {
        f"{benchmark.name}_ref_{summary.global_batch_size}": {
            "Benchmark": benchmark.name,
            "Creator": "dlrmbench",
            "When": calibration.created_utc[:10],
            "Platform": calibration.platform,
            "Precision": "FP32",
            "BS": summary.global_batch_size,
            "Hyperparams": {**hyperparams, "opt_base_learning_rate": summary.opt_base_learning_rate},
            "Epochs to converge": [in_logged_unit(benchmark, epochs) for epochs in summary.converged[:num_runs]],
            "Seeds": list(summary.seeds[:num_runs]),
            **({} if calibration.is_calibrated else {"Calibrated": False}),
        }
        for summary in calibration.batch_sizes
        if len(summary.converged) == len(summary.seeds)
    }


def in_logged_unit(benchmark: Benchmark, epochs: float) -> float:
    """Return epochs to converge in the unit of the benchmark's logs, which are samples if the benchmark definition
    says so.

    Raises DefinitionError where the unit is samples and the definition does not say how many samples an epoch has.
    """
    if benchmark.quality.convergence_unit != keys.SAMPLES_COUNT:
        return epochs
    if (samples := benchmark.data_samples("train_samples")) is None:
        raise DefinitionError(
            f"{benchmark.name}: convergence is told in samples, and data.train_samples is not given. Expected the "
            "samples of an epoch; write them into the definition."
        )
    return round(epochs * samples)


def calibration_blocks(calibration: CalibrationRecord) -> tuple[Block, ...]:
    """Return the report blocks (tables and sentences) that show a calibration: conditions, batch sizes, simpler
    models, quality over the epoch, tuning of learning rates."""
    default, metric = calibration.default, METRICS[calibration.metric]
    label, size = metric.label, calibration.default_batch_size
    columns = tuple(name.format(label) for name in _BATCH_SIZE_COLUMNS)
    marks: Mapping[bool | None, str] = {True: "holds", False: "does not hold", None: "not measured"}
    in_other = "" if calibration.precision == "fp32" else f", in {calibration.precision}"
    heading = f"{calibration.benchmark} version {calibration.version}: target {calibration.target:g}{in_other}"
    note = (
        f"Uncalibrated: {len(default.seeds)} seeds at one batch size and learning rate, a look at the problem. "
        "Its points are not a reference, and no verdict rests on them. A calibration without --quick takes over "
        "these runs."
    )
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
        (
            row.global_batch_size,
            f"{row.opt_base_learning_rate:g}",
            "not all reach it" if row.mean_epochs is None else f"{row.mean_epochs:.3f}",
            f"{row.mean_final_quality:.4f}",
        )
        for row in calibration.tuning
    ]
    columns_of_tuning = ("batch size", "learning rate", "mean epochs", f"final {label}")
    return (
        Heading(text=heading),
        *([] if calibration.is_calibrated else [Prose(text=note)]),
        Bullets(
            items=tuple(
                f"({condition.letter}) {marks[condition.holds]}: {condition.found}. Demanded: {condition.demanded}."
                for condition in calibration.conditions
            )
        ),
        *([Prose(text=calibration.proposal.reason)] if calibration.proposal is not None else []),
        text_table(columns, map(_batch_size_row, calibration.batch_sizes), numbers=columns),
        text_table(
            ("model", f"best {label} in the epoch", "at learning rate", "learning rates tried"),
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
            caption=f"{metric.capital} over {len(default.seeds)} seeds at batch size {size}:",
        ),
        *([text_table(columns_of_tuning, tuning, numbers=columns_of_tuning, caption=_TUNING)] if tuning else []),
        *([Prose(text=words)] if (words := environment_words(calibration.preflight, calibration.loads)) else []),
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
