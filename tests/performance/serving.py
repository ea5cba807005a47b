"""Compare LoadGen's bound of a system of constant service time with the true one: that of simulated queries.

    python tests/performance/serving.py [SERVICE_MS [LIMIT_MS [CALLS]]]

Prints the measured steady-state rate, the true one and their ratio, of each call and as the median of all. The true
rate is simulated from the service times that LoadGen's own runs had: the rest of the difference comes of the search,
LoadGen's rule, its random arrivals, and the overhead of threads and the queue.
"""

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from harness.extensions.serving.bench import Bench
from harness.extensions.serving.bound import Limit, model_bound
from harness.extensions.serving.config import parse_serve
from harness.extensions.serving.loadgen import published_seeds
from harness.foundation.errors import end_process
from harness.foundation.queue_simulation import ServiceTimes, Workers, draw_traffic
from reference_models.process.world import SingleProcess

PERCENTILE, NUM_QUERIES = 95.0, 400_000


def bound_once(service_s: float, limit_s: float, seed: int) -> dict[str, Any]:
    """Measure a system that sleeps so long for a query, and what is true of the service times that it had."""
    took_s: list[float] = []

    def answer(parts: object) -> None:
        start_s = time.perf_counter()
        time.sleep(service_s)
        took_s.append(time.perf_counter() - start_s)

    asked = {"target_latency_ms": limit_s * 1e3, "percentile": PERCENTILE, "queries": "fixed:1"}
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(
            answer=answer,
            sizes=(1,) * 64,
            serve=parse_serve(asked),
            seed=seed,
            seeds=published_seeds(),
            folder=Path(folder),
            on_event=lambda event: None,
        )
        overhead_s = bench.measure_overhead()
        found = bench.measure(SingleProcess(), "run", overhead_s)
    assert found is not None
    mean_s = statistics.fmean(took_s)
    service = ServiceTimes(by_items_s=np.full(2, mean_s), factors=np.asarray(took_s) / mean_s)
    traffic = draw_traffic(NUM_QUERIES, (1,), service, seed=3)
    truth = model_bound(traffic, service, Workers(), Limit(seconds=limit_s, share=PERCENTILE / 100)).rate
    assert truth is not None
    return {
        "ratio": found.best.asked_per_s / (found.loadgen_share or 1.0) / truth,
        "truth_per_s": truth,
        "loadgen_per_s": found.valid_per_s,
        "modelled_per_s": found.modelled.rate,
        "mean_service_s": mean_s,
        "overhead_s": overhead_s,
        "runs": [(run.asked_per_s, run.num_queries, run.latency_s, run.is_valid) for run in found.runs],
    }


def main(service_ms: float = 2.0, limit_ms: float = 25.0, calls: float = 5) -> None:
    ratios = []
    for number in range(int(calls)):
        found = bound_once(service_ms / 1e3, limit_ms / 1e3, 5 + number)
        ratios.append(found["ratio"])
        print(json.dumps(found), flush=True)
    print(f"median ratio {statistics.median(ratios):.3f} of {[round(ratio, 3) for ratio in ratios]}")


if __name__ == "__main__":
    main(*map(float, sys.argv[1:]))
    end_process(0)
