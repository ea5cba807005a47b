"""The columns of the tables and what each holds: names and meanings stay, new ones go to the end."""

import math
from collections.abc import Mapping
from typing import Literal

Kind = Literal["text", "count", "number"]
"""count: a whole number of any size. number: SI units, as the name says. Any may be missing."""


def _columns(**kinds: Kind) -> Mapping[str, Kind]:
    return kinds


RUN_COLUMNS: Mapping[str, Kind] = _columns(
    configuration="text", benchmark="text", benchmark_version="count", division="text", run="text", attempt="count",
    status="text", counted="text", reason="text", seed="count", started_ms="number", time_to_train_s="number",
    train_s="number", eval_s="number", overhead_s="number", init_s="number", samples_to_converge="count",
    epochs_to_converge="number", throughput_samples_per_s="number", final_quality="number", quality_target="number",
    num_evaluations="count", global_batch_size="count", learning_rate="number", peak_rss_bytes="number",
    peak_device_bytes="number", log_sha256="text", path="text", organization="text", platform="text",
    train_samples="count", eval_samples="count", energy_j="number",
)  # fmt: skip
EVALUATION_COLUMNS: Mapping[str, Kind] = _columns(
    configuration="text", run="text", evaluation="count", epoch_num="number", samples_count="count",
    elapsed_s="number", quality="number", path="text",
)  # fmt: skip
CONFIGURATION_COLUMNS: Mapping[str, Kind] = _columns(
    configuration="text", benchmark="text", benchmark_version="count", status="text", division="text", system="text",
    outcome="text", num_errors="count", num_warnings="count", num_runs="count", num_runs_required="count",
    num_converged="count", num_unfinished="count", score_s="number", olympic_mean_s="number", low_s="number",
    high_s="number", confidence="number", coverage="number", rcp_outcome="text", rcp_factor="number",
    no_score_reason="text", epochs_to_converge="number", epochs_cv="number", throughput_samples_per_s="number",
    throughput_cv="number", quality_target="number", final_quality="number", global_batch_size="count",
    learning_rate="number", peak_rss_bytes="number", peak_device_bytes="number", definition_sha256="text",
    dataset_sha256="text", organization="text", round="text", num_runs_dropped="count",
)  # fmt: skip
# In the JSON export, a run's evaluations are one list per quantity.
PER_EVALUATION = ("epoch_num", "samples_count", "elapsed_s", "quality")

LIMITS: Mapping[str, tuple[float, float]] = {
    **dict.fromkeys(
        (
            "time_to_train_s", "train_s", "eval_s", "overhead_s", "init_s", "elapsed_s", "score_s", "olympic_mean_s",
            "low_s", "high_s", "samples_to_converge", "epochs_to_converge", "throughput_samples_per_s", "energy_j",
            "epochs_cv", "throughput_cv", "peak_rss_bytes", "peak_device_bytes", "num_evaluations", "num_errors",
            "num_warnings", "num_runs", "num_runs_required", "num_converged", "num_unfinished", "num_runs_dropped",
        ),
        (0.0, math.inf),
    ),
    **dict.fromkeys(("confidence", "coverage"), (0.0, 1.0)),
}  # fmt: skip
"""Least and greatest value of what is measured and counted; a log's own settings are taken as it says them."""
AUC_LIMITS: Mapping[str, tuple[float, float]] = dict.fromkeys(("final_quality", "quality"), (0.0, 1.0))
"""Of benchmarks that are defined here; what another one measures its quality by is not known."""
