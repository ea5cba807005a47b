"""List the requirements of MLPerf Inference for recommenders, by round. Each is a fact from a file of
mlcommons/inference.

Limits, percentiles, durations and seeds are from loadgen/mlperf.conf, which has only a latency limit for dlrm-v3. The
models of a round, and counts that mlperf.conf lacks, are from tools/submission/submission_checker/constants.py. The
data set (2 TB) and the checkpoint (1 TB) of dlrm-v3 are not available in dlrmbench. The requirements of dlrm-v3 are
therefore applied to dlrmbench's own benchmark definitions.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

NUM_CANDIDATES = 2048
"""Number of candidate items to rank in a request of dlrm-v3 (recommendation/dlrm_v3/streaming_synthetic_data.py,
num_inference_candidates)."""
FORMS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "dlrm-v2": {
        "server": {
            "percentile": 99.0,  # loadgen/mlperf.conf, *.Server.target_latency_percentile
            "target_latency_ms": 60.0,  # dlrm-v2.Server.target_latency
            "queries": "mlperf",  # recommendation/dlrm_v2, dist_quantile.txt
            "min_duration_s": 600.0,  # *.Server.min_duration
            "library": 204_800,  # dlrm-v2.*.performance_sample_count_override
        },
        "offline": {
            "queries": "mlperf",
            "min_duration_s": 600.0,  # *.Offline.min_duration
            "min_queries": 24_576,  # dlrm-v2.Offline.min_query_count
            "library": 204_800,
        },
    },
    "dlrm-v3": {
        "server": {
            "percentile": 99.0,  # loadgen/mlperf.conf, *.Server.target_latency_percentile
            "target_latency_ms": 80.0,  # dlrm-v3.Server.target_latency; constants.py accepts up to 60 s
            "queries": "dlrm-v3",
            "min_duration_s": 600.0,  # *.Server.min_duration
            "library": 349_823,  # constants.py, performance-sample-count
        },
        "offline": {
            "queries": "dlrm-v3",
            "min_duration_s": 600.0,  # *.Offline.min_duration
            "min_queries": 349_823,  # constants.py, OFFLINE_MIN_SPQ_SINCE_V4
            "library": 349_823,
        },
    },
}
"""Values of [serve] that MLPerf Inference requires, by MLPerf's name of the model and by scenario. Latency limits are
maxima; counts and durations are minima. The minimum of 270,336 queries that constants.py sets for the scenario server
is left out: it does not apply if LoadGen's early stopping judges a run, and here it always does."""


@dataclass(frozen=True, kw_only=True, slots=True)
class InferenceRound:
    """A round of MLPerf Inference: its recommender, and LoadGen's seeds."""

    model: str
    library: int
    """Seed of LoadGen's choice of samples to load in the round: qsl_rng_seed."""
    samples: int
    """Seed of the order in which LoadGen asks for samples in the round: sample_index_rng_seed."""
    schedule: int
    """Seed of LoadGen's arrival times in the round: schedule_rng_seed."""


ROUNDS: Mapping[str, InferenceRound] = {
    "5.0": InferenceRound(  # loadgen/mlperf.conf at v5.0
        model="dlrm-v2", library=6023615788873153749, samples=15036839855038426416, schedule=9933818062894767841
    ),
    "5.1": InferenceRound(  # loadgen/mlperf.conf at v5.1
        model="dlrm-v2", library=1780908523862526354, samples=14771362308971278857, schedule=18209322760996052031
    ),
    "6.0": InferenceRound(  # loadgen/mlperf.conf at 80aaa82a, of February 2026; constants.py, v6.0
        model="dlrm-v3", library=2465351861681999779, samples=14276810075590677512, schedule=3936089224930324775
    ),
    "6.1": InferenceRound(  # loadgen/mlperf.conf at b0662794, of July 2026; constants.py, v6.1
        model="dlrm-v3", library=2085463073848966840, samples=2747215439041700203, schedule=16159082839903944936
    ),
}
"""Rounds of MLPerf Inference by name, each with its recommendation benchmark, from constants.py of the submission
checker."""
LAST_ROUNDS: Mapping[str, str] = {round_.model: name for name, round_ in ROUNDS.items()}
"""Last known round of MLPerf Inference that has a model, by MLPerf's name of the model."""
EARLIEST = "5.1"
"""Round of MLPerf Inference whose requirements apply to files that name no round."""
