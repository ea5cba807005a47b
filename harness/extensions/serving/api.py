"""`serve` as a function of `harness.api`."""

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
    """Find how many queries a second a model answers within a latency limit, judged by MLPerf LoadGen, in each of
    `processes` fresh processes, 5 by default; returns the measurement's folder below `output`.

    `settings` such as {"serve.target_latency_ms": 25, "serve.percentile": 99, "runtime.precision": "int8"}; `weights`
    is the folder of a set that kept them, with `:RUN` behind it for another run than its first. Without, and without
    "serve.train_samples", weights are random. Raises HarnessError (exit 7) where no rate meets the limit.
    """
    members = {name: value for name, value in locals().items() if name != "processes"} | {"runs": processes}
    return start(make_request("serve", {**members, "kinds": {"serve": None}, "flags": REQUEST_FLAGS}))
