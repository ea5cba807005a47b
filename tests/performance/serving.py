"""How near LoadGen's bound of a system of constant service time is to the truth: queries on a virtual clock.

    python tests/performance/serving.py [SERVICE_MS [LIMIT_MS]]

Prints both rates, their ratio, and what the bound is by the service time that was measured. The system waits with the
processor busy, so that it takes as long as it is said to; 5 % is what one run of LoadGen resolves.
"""

import json
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from harness.config.serving import parse_serve
from harness.foundation.errors import end_process
from harness.measure.serving.bound import Limit, model_bound
from harness.measure.serving.job import Bench
from harness.measure.serving.queue import ServiceTimes, Workers, draw_traffic
from reference_models.process.world import SingleProcess

PERCENTILE, NUM_QUERIES = 95.0, 400_000


def main(service_ms: float = 2.0, limit_ms: float = 25.0) -> None:
    service_s = service_ms / 1e3

    def answer(places: object) -> None:
        end_s = time.perf_counter() + service_s
        while time.perf_counter() < end_s:
            pass

    asked = {"target_latency_ms": limit_ms, "percentile": PERCENTILE, "queries": "fixed:1"}
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(
            answer=answer, sizes=(1,) * 64, serve=parse_serve(asked), seed=5, folder=Path(folder),
            on_event=lambda event: None,
        )  # fmt: skip
        overhead_s = bench.measure_overhead()
        found = bench.measure(SingleProcess(), "run", overhead_s)
    assert found is not None
    constant = ServiceTimes(by_items_s=np.full(2, service_s), factors=np.ones(1))
    traffic = draw_traffic(NUM_QUERIES, (1,), constant, seed=3)
    limit = Limit(seconds=limit_ms / 1e3, share=PERCENTILE / 100)
    truth = model_bound(traffic, constant, Workers(), limit).rate
    assert truth is not None
    print(
        json.dumps(
            {
                "truth_per_s": truth,
                "loadgen_per_s": found.best.completed_per_s,
                "ratio": found.best.completed_per_s / truth,
                "modelled_of_measured_service_per_s": found.modelled.rate,
                "mean_service_s": found.timed[0].mean_s,
                "overhead_s": overhead_s,
                "runs": [(run.asked_per_s, run.latency_s, run.is_valid) for run in found.runs],
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main(*map(float, sys.argv[1:]))
    end_process(0)
