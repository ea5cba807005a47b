"""Define `harness.api.serve`, which measures the serving of a model as `dlrmbench serve` does."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.api import make_request, start
from harness.extensions.serving.options import REQUEST_FLAGS


def serve(
    benchmark: str | Path = "dlrm_small",
    *,
    processes: int | None = None,
    seed: int | None = None,
    settings: Mapping[str, Any] | None = None,
    weights: str | Path | None = None,
    name: str | None = None,
    division: str | None = None,
    data: str | Path | None = None,
    output: str | Path = "results",
    quiet: bool = True,
) -> Path:
    """Find the highest rate of queries that a model answers within a latency limit, judged by MLPerf LoadGen, in each
    of `processes` fresh processes, 5 by default; return the measurement's folder below `output`.

    `settings` is a dict from key to value of the benchmark definition, such as {"serve.target_latency_ms": 25,
    "serve.percentile": 99, "runtime.precision": "int8"}. `weights` is the folder of a run set that kept its weights;
    a number after it, as in `FOLDER:RUN`, chooses another run than the first. If neither `weights` nor
    "serve.train_samples" is given, weights are random. Raises HarnessError (exit 7) where no rate meets the limit.
    """
    members = {name: value for name, value in locals().items() if name != "processes"} | {"runs": processes}
    return start(make_request("serve", {**members, "kinds": {"serve": None}, "flags": REQUEST_FLAGS}))
