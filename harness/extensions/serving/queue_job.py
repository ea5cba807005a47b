"""Simulate the queue of a served model from service times that are measured now, without LoadGen. This is a study,
with tables of simulated latencies, and no measurement of a rate."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from harness.config.run_config import Override, RunConfig
from harness.extensions.serving.bench import NUM_SIMULATED, TIMING_S, make_workers
from harness.extensions.serving.bound import Limit, model_bound
from harness.extensions.serving.config import read_serve
from harness.extensions.serving.job import WEIGHTS_KEY, ServedKind, resolve_served
from harness.extensions.serving.study import make_queue_study
from harness.extensions.serving.timing import choose_calls, fit_service, time_calls
from harness.foundation.errors import ExitCode, HarnessError
from harness.foundation.queue_simulation import answer_alone, draw_traffic, percentile_of, replay_traffic
from harness.measure.kinds import Job, OnEvent
from reference_models.process.world import World
from rules.records.study import STUDY_FILE, StudyRecord


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueJob(Job):
    """Job of one process that simulates a served model's queue; table [serve] of the benchmark definition has the
    settings."""


def simulate_queue(job: QueueJob, world: World, on_event: OnEvent) -> StudyRecord:
    """Build the model, time its calls, and simulate its queue at rates up to its capacity.

    Raises HarnessError (exit 7) where no rate meets the limit; ConfigError.
    """
    from harness.extensions.serving.model import build_served

    benchmark, config = job.parse()
    serve = read_serve(benchmark.sections)
    assert serve.limit_s is not None, "as resolved"
    limit = Limit(seconds=serve.limit_s, share=serve.share)
    served, _ = build_served(job, benchmark, config, serve, with_quality=False)
    workers = make_workers(serve)
    timed = time_calls(served.answer, choose_calls(served.sizes, workers), workers.count, TIMING_S)
    asked = serve.query_file
    service = fit_service(timed, serve.max_items or max(served.sizes if asked is None else asked.items))
    if asked is None or asked.arrivals_s is None:
        traffic = draw_traffic(NUM_SIMULATED, served.sizes, service, job.seed)
    else:
        traffic = replay_traffic(asked.items, asked.arrivals_s, service, job.seed)
    bound = model_bound(traffic, service, workers, limit)
    if bound.rate is None:
        alone_s = percentile_of(answer_alone(traffic, service, workers), limit.share)
        raise HarnessError(
            f"no rate meets the limit: a query alone takes {alone_s * 1e3:.3g} ms at p{serve.percentile:g}, timed "
            f"just now on this system with its present load, and the limit is {limit.seconds * 1e3:g} ms. Try again "
            "when 'dlrmbench doctor' warns of no load, or give a longer --target-latency or smaller --queries.",
            ExitCode.INCONCLUSIVE,
        )
    rates = sorted({*(rate for rate, _ in bound.curve), bound.rate})
    return make_queue_study(benchmark, serve, job.seed, rates, traffic, service, workers, None)


class QueueKind(ServedKind):
    """Kind of study that simulates the queue of a served model, in one process."""

    def resolve(self, benchmark: str | Path, overrides: Iterable[Override], label: str | None) -> RunConfig:
        config = resolve_served(benchmark, overrides, label)
        if (serve := read_serve(config.tables)).limit_s is None:
            raise HarnessError(
                f"'simulate' needs a latency limit; scenario {serve.scenario} has none. Give --scenario server."
            )
        return config


KIND = QueueKind(
    name="queue",
    job=QueueJob,
    record=StudyRecord,
    run=simulate_queue,
    file=STUDY_FILE,
    takes_id_maps="made",
    weights_key=WEIGHTS_KEY,
)
