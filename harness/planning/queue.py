"""`serve --simulate`: what the virtual clock says of a served model, from service times measured now."""

import os
from pathlib import Path

from harness.config.run_config import RunConfig
from harness.config.serving import parse_serve
from harness.foundation.errors import ExitCode, HarnessError
from harness.system.resources import read_resources
from harness.system.software import WORKER_VARIABLES
from rules.records.study import StudyRecord

TIMING_S = 1.0
NUM_SIMULATED = 20_000


def simulate_service(config: RunConfig, data_dir: Path, seed: int) -> StudyRecord:
    """Build the model, time its calls in this process, and simulate its queue at rates up to what it can do.

    Raises HarnessError: exit 2 for a scenario without a limit, 7 where no rate meets the limit; ConfigError.
    """
    serve = parse_serve(config.tables.get("serve", {}))
    if serve.limit_s is None:
        raise HarnessError(f"--simulate is of queries with a latency limit; scenario {serve.scenario} has none.")
    os.environ.update({**WORKER_VARIABLES, **os.environ})  # as in a run, and before torch is imported
    from harness.measure.serving.bound import Limit, model_bound
    from harness.measure.serving.model import build_served
    from harness.measure.serving.queue import Workers, answer_alone, draw_traffic, percentile_of
    from harness.measure.serving.study import make_queue_study
    from harness.measure.serving.timing import fit_service, time_calls

    num_threads = config.workload.runtime.threads or read_resources().num_cores
    served, _ = build_served(
        config.workload,
        serve,
        data_dir,
        seed,
        config.benchmark.definition_sha256,
        threads=max(1, num_threads // serve.threads),
        with_quality=False,
    )
    workers = Workers(count=serve.threads, max_items=serve.batch, wait_s=serve.batch_wait_ms / 1e3)
    timed = time_calls(served.answer, served.sizes, workers, TIMING_S)
    service = fit_service(timed, serve.batch or max(served.sizes))
    traffic = draw_traffic(NUM_SIMULATED, served.sizes, service, seed)
    bound = model_bound(traffic, service, workers, Limit(seconds=serve.limit_s, share=serve.share))
    if bound.rate is None:
        alone_s = percentile_of(answer_alone(traffic, service, workers), serve.share)
        raise HarnessError(
            f"no rate meets the limit: a query alone takes {alone_s * 1e3:.3g} ms at p{serve.percentile:g}, the "
            f"limit is {serve.limit_s * 1e3:g} ms. Give a longer --target-latency or smaller --queries.",
            ExitCode.INCONCLUSIVE,
        )
    rates = sorted({*(rate for rate, _ in bound.curve), bound.rate})
    return make_queue_study(config.benchmark, serve, seed, rates, traffic, service, workers, None)
