"""Choose by timing how queries are answered: by how many workers and threads, and with how many items (candidates to
rank) in a call of the model. The choice is made in one fresh process before the measurement.

For each setting, calls of the model are timed on all its workers at once. The settings are timed alternately, in
rounds. Noise only makes rounds slower, so the fastest round of each call counts. From these times a simulation
computes the rate of each setting within the latency limit.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial

from harness.autotune.choices import Candidates, OwnWays, powers
from harness.config.run_config import RunConfig
from harness.extensions.serving.bench import make_workers
from harness.extensions.serving.bound import MAX_CALL, Limit, climb, highest_rate
from harness.extensions.serving.config import ServeConfig, read_serve
from harness.extensions.serving.timing import TimedSize, choose_all_calls, choose_calls, fit_service, time_calls
from harness.foundation.errors import ExitCode, HarnessError
from harness.foundation.queue_simulation import Workers, draw_traffic
from harness.launch.deadline import AT_ONCE
from harness.launch.process import Interpreter, explain_end, launch_worker
from harness.measure.job import write_job
from harness.measure.kinds import Job, Kind, OnEvent
from harness.system.resources import read_resources
from reference_models.process.world import World
from rules.records.codec import Damage, decode
from rules.records.measure import Measurement
from rules.records.run_set import TIE, ChoiceRecord, ServiceChoice, ServiceWayRecord
from rules.temporary_folder import temporary_folder

_ROUNDS, _ROUND_S = 3, 0.25
_NUM_SIMULATED = 4_000
"""Number of simulated queries: the same queries for every setting of workers and threads, so that few are enough to
rank the settings."""
_NOT_OF_A_CALL = (
    "weights", "train_samples", "duration_s", "colocate", "target_qps", "min_duration_s", "min_queries", "library",
    "mlperf", "round", "user_conf",
)  # fmt: skip
"""Keys of [serve] in a benchmark definition that do not change the time of calls of the model: a choice of workers
and threads made by timing is kept for all values of these keys."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ServiceChoiceJob(Job):
    """Job of one process that times settings of workers and threads; table [serve] of the benchmark definition has
    the other settings."""

    ways: tuple[tuple[int, int], ...]
    """Settings that are timed: the number of workers, and the number of threads of all workers together."""


class ServiceTrials(Measurement, frozen=True, kw_only=True):
    """Simulated rates of the settings of workers, threads and calls that one process has timed."""

    tried: tuple[ServiceWayRecord, ...]


def fewest_parts(tried: Sequence[ServiceWayRecord]) -> ServiceWayRecord:
    """Return the simplest setting of workers and threads among those with nearly the highest rate of queries (within
    a factor `TIE`). The simplest has the fewest threads. Ties are broken by fewest workers, then by not splitting
    queries, then by not merging them."""
    most = max(way.queries_per_s for way in tried)
    fast = [way for way in tried if way.queries_per_s * TIE >= most]
    return min(
        fast,
        key=lambda way: (
            way.num_threads,
            way.num_workers,
            way.split_items is not None,
            way.batch_items is not None,
            -way.queries_per_s,
        ),
    )


def rates_of_calls(
    timed: Sequence[TimedSize], serve: ServeConfig, sizes: Sequence[int], workers: Workers
) -> dict[Workers, float]:
    """Return a dict from settings of the workers to the highest simulated rate in queries per second. In the
    simulation, calls of the model take the times in `timed`.

    If the maximum number of items in a call is to be searched, the dict has every tried setting that meets the
    latency limit; otherwise it has the setting `workers` alone. It is empty if no setting meets the limit.
    """
    service = fit_service(timed, MAX_CALL if serve.is_batch_searched else serve.max_items or max(sizes))
    traffic = draw_traffic(_NUM_SIMULATED, sizes, service, seed=0)
    limit = Limit(seconds=serve.limit_s or 1.0, share=serve.share)

    def rate_of(way: Workers) -> float | None:
        return highest_rate(serve.scenario, traffic, service, way, limit)

    if serve.is_batch_searched:
        return climb(rate_of, workers, sizes)
    rate = rate_of(workers)
    return {} if rate is None else {workers: rate}


def find_ways(config: RunConfig) -> OwnWays | None:
    """Return the numbers of workers and threads of a service among which timing chooses. None if only one number of
    each is possible and the items in a call are not to be searched either."""
    serve, given = read_serve(config.tables), config.workload.runtime.threads
    counts = (given,) if given else powers(max(1, read_resources().num_cores // serve.colocate))
    ways = tuple(
        (workers, threads)
        for threads in counts
        for workers in ((serve.threads,) if serve.threads else powers(threads))
        if threads % workers == 0 or serve.threads
    )
    if len(ways) <= 1 and not serve.is_batch_searched:
        return None
    return OwnWays(
        thread_counts=tuple({threads for _, threads in ways}),
        chosen_for={
            "serve": {key: value for key, value in asdict(serve).items() if key not in _NOT_OF_A_CALL},
            "ways": [list(way) for way in ways],
            "table_precision": config.workload.runtime.table_precision,
        },
        words="workers, threads and calls",
        done="answered",
        time=partial(time_services, ways),
    )


def time_services(
    ways: tuple[tuple[int, int], ...], candidates: Candidates, interpreter: Interpreter | None
) -> ChoiceRecord | str:
    """Choose workers and threads among `ways` by timing them in a fresh process; return the choice, or the reason why
    timing failed."""
    most = max(threads for _, threads in ways)
    tables = candidates.config.tables
    with temporary_folder("choice") as folder:
        job = ServiceChoiceJob(
            tables={**tables, "runtime": {**tables.get("runtime", {}), "threads": most}},
            definition_path=str(candidates.config.benchmark.path),
            data_dir=str(candidates.data_dir),
            seed=0,
            folder=str(folder),
            ways=ways,
        )
        end = launch_worker(write_job(KIND, job), num_threads=most, interpreter=interpreter, timeout_s=AT_ONCE)
        found = decode(folder / KIND.file, ServiceTrials)
    if isinstance(found, Damage):
        return explain_end(end)[0]
    chosen = fewest_parts(found.tried)
    return ChoiceRecord(
        key=candidates.key,
        num_threads=chosen.num_threads,
        spin_count=None,
        tried=(),
        matmul=None,
        matmul_source=None,
        chosen_utc=datetime.now(UTC).isoformat(timespec="seconds"),
        service=ServiceChoice(chosen=chosen, tried=found.tried),
    )


def try_services(job: ServiceChoiceJob, world: World, on_event: OnEvent) -> ServiceTrials:
    """Build the model with random weights and time its calls with every setting of workers and threads. Raises
    HarnessError (exit 7) if no setting meets the latency limit."""
    import torch

    from harness.extensions.serving.model import build_served

    benchmark, config = job.parse()
    serve = replace(read_serve(benchmark.sections), weights=None, train_samples=None)
    served, _ = build_served(job, benchmark, config, serve, with_quality=False)
    all_workers = {(count, threads): replace(make_workers(serve), count=count) for count, threads in job.ways}
    best: dict[tuple[int, int], list[TimedSize]] = {}
    for _ in range(_ROUNDS):
        for way, workers in all_workers.items():
            torch.set_num_threads(max(1, way[1] // way[0]))
            is_searched = serve.is_batch_searched
            calls = choose_all_calls(served.sizes, MAX_CALL) if is_searched else choose_calls(served.sizes, workers)
            timed = time_calls(served.answer, calls, workers.count, _ROUND_S)
            pairs = zip(best.get(way, timed), timed, strict=True)
            best[way] = [min(pair, key=lambda size: size.mean_s) for pair in pairs]
    tried = tuple(
        ServiceWayRecord(
            num_workers=workers.count,
            num_threads=way[1],
            batch_items=workers.max_items,
            split_items=workers.split_from,
            queries_per_s=rate,
        )
        for way, timed in best.items()
        for workers, rate in rates_of_calls(timed, serve, served.sizes, all_workers[way]).items()
    )
    if not tried:
        raise HarnessError(
            "no rate meets the limit with any workers. Give a longer --target-latency or smaller --queries.",
            ExitCode.INCONCLUSIVE,
        )
    return ServiceTrials(tried=tried)


KIND = Kind(name="service_choice", job=ServiceChoiceJob, record=ServiceTrials, run=try_services)
