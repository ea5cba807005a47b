"""From logs to results: one run's times and counts, and the score of a set of runs."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluation:
    """One look at the held-out data. `elapsed_s` counts from run_start to the stamp of eval_accuracy."""

    epoch_num: float | None
    samples_count: int | None
    elapsed_s: float
    quality: float


@dataclass(frozen=True, kw_only=True, slots=True)
class RunResult:
    """What one log says about one run. None is "not known from the log", never zero.

    time_to_train_s = run_stop - run_start. throughput_samples_per_s = samples_to_converge / train_s, with
    train_s the time inside blocks (time to train minus evaluations where the log has no blocks).
    overhead_s = time_to_train_s - train_s.
    """

    path: str
    log_sha256: str
    benchmark: str | None
    benchmark_version: int | None
    definition_sha256: str | None
    dataset_sha256: str | None
    division: str | None
    organization: str | None
    platform: str | None
    seed: int | None
    status: str | None
    abort_reason: str | None
    converged: bool
    quality_target: float | None
    global_batch_size: int | None
    learning_rate: float | None
    train_samples: int | None
    eval_samples: int | None
    started_ms: float | None
    init_s: float | None
    time_to_train_s: float | None
    train_s: float | None
    eval_s: float | None
    overhead_s: float | None
    samples_to_converge: int | None
    epochs_to_converge: float | None
    throughput_samples_per_s: float | None
    final_quality: float | None
    evaluations: tuple[Evaluation, ...]
    cache_clear: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class BenchmarkResult:
    """The score of one set of runs: Olympic mean over exactly `num_runs_required` runs, or why there is none.

    `dropped` are indices into `runs`. A run that did not converge counts as infinitely slow; one may be the
    dropped slowest (training_rules.adoc, "Benchmark results"). `rcp_factor` is None when no RCP applies.
    """

    benchmark: str | None
    runs: tuple[RunResult, ...]
    num_runs_required: int | None
    olympic_mean_s: float | None
    dropped: tuple[int, ...]
    no_score_reason: str | None
    rcp_outcome: str | None
    rcp_factor: float | None
    score_s: float | None
