"""Serving: queries per second within a latency limit, of one fresh process or of several beside each other.

Rank 0 measures alone first where there are several; then all of them, each with queries of its own. Service times are
measured, the virtual clock says near which rate the limit is met, and LoadGen judges real rates around it.
"""

import resource
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from harness.config.serving import ServeConfig, parse_serve
from harness.foundation.errors import ExitCode, HarnessError, RefusedByAllError
from harness.foundation.files import write_record
from harness.measure.kinds import Job, MeasurementKind, OnEvent
from harness.measure.serving.bound import Limit, ModelledBound, model_bound, most_per_s
from harness.measure.serving.loadgen import Answer, Judgement, Scenario, Trial, judge, require_loadgen
from harness.measure.serving.queue import ServiceTimes, Traffic, Workers, draw_traffic, percentile_of
from harness.measure.serving.search import Tried, search_highest
from harness.measure.serving.study import STUDY_FILE, make_queue_study
from harness.measure.serving.timing import TimedSize, fit_service, time_calls
from harness.system.resources import read_resources
from reference_models.process.world import SingleProcess, World
from rules.records.codec import VERSION
from rules.records.measured.serve import CurvePoint, LoadGenRun, ServeProcess, ServeRecord, ServiceTime

USUAL_PROCESSES = 5
TIMING_S = 1.0
RUN_S, RUN_LIMITS = 2.0, 20
"""Of one LoadGen run at least, and in limits: a queue that grows by a twentieth is then seen to."""
NUM_SIMULATED = 20_000
MIN_QUERIES = {50.0: 100, 90.0: 100, 95.0: 200, 97.0: 340, 99.0: 1000, 99.9: 10_000}
"""By percentile, so that LoadGen can be sure: of ln .01 / ln p of them (44, 90, 152, 459, 4603) none may be late, of
more some."""
_OVERHEAD_RATE, _OVERHEAD_QUERIES, _OVERHEAD_S = 1000.0, 400, 0.4


@dataclass(frozen=True, kw_only=True, slots=True)
class ServeJob(Job):
    """One process's measurement; all that is asked is in [serve]."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """What one process, or several beside each other, did."""

    timed: Sequence[TimedSize]
    modelled: ModelledBound
    overhead_s: float
    runs: tuple[LoadGenRun, ...]
    best: LoadGenRun
    service: ServiceTimes
    traffic: Traffic
    """Of the virtual clock, whose table is made of them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Bench:
    """Measures what answers queries of a pool: its service times, the modelled bound, the runs of LoadGen."""

    answer: Answer
    sizes: Sequence[int]
    """Items of each query of the pool."""
    serve: ServeConfig
    seed: int
    folder: Path
    """Of LoadGen's files."""
    on_event: OnEvent

    @property
    def workers(self) -> Workers:
        return Workers(count=self.serve.threads, max_batch=self.serve.batch, wait_s=self.serve.batch_wait_ms / 1e3)

    @property
    def limit(self) -> Limit:
        """Of the server; any limit where the scenario has none."""
        return Limit(seconds=self.serve.limit_s or 1.0, share=self.serve.share)

    def measure_overhead(self) -> float:
        """Return the median latency that LoadGen sees of a system that does nothing, in seconds."""
        trial = self._trial("server", _OVERHEAD_RATE, _OVERHEAD_QUERIES, _OVERHEAD_S)
        found = judge(lambda places: None, len(self.sizes), Workers(), trial, self.folder / "overhead")
        return found.latencies_s["50.00"]

    def measure(self, world: World, name: str, overhead_s: float) -> Found | None:
        """Measure on every rank of `world`, at equal rates; what was found on rank 0. LoadGen's files are in `name`.

        Raises HarnessError (exit 7) on every rank where no rate meets the limit.
        """
        world.barrier()
        timed = time_calls(self.answer, self.sizes, self.workers, TIMING_S)
        service = fit_service(timed, max(self.sizes) * self.serve.batch)
        traffic = draw_traffic(NUM_SIMULATED, self.sizes, service, self.seed)
        most = most_per_s(traffic, service, self.workers)
        modelled = ModelledBound(rate=most, curve=())
        if self.serve.scenario == "server":
            limit = replace(self.limit, seconds=self.limit.seconds - overhead_s)
            modelled = model_bound(traffic, service, self.workers, limit)
        elif self.serve.scenario == "single_stream":
            modelled = ModelledBound(rate=1 / float(service.of(traffic.items, traffic.factors).mean()), curve=())
        rates = world.gather(modelled.rate)
        slowest = world.broadcast(None if rates is None else _slowest(rates))
        if slowest is None:
            raise RefusedByAllError(self._say_no_rate(timed), ExitCode.INCONCLUSIVE)

        def attempt(rate: float) -> Tried[LoadGenRun]:
            number = f"{name}_{len(done) + 1}"
            self.on_event({"event": "progress", "doing": f"LoadGen asks {rate:,.1f} queries/s"})
            world.barrier()
            folder = Path(number) if world.size == 1 else Path(number) / f"process_{world.rank}"
            duration_s = max(RUN_S, RUN_LIMITS * (self.serve.limit_s or 0.0))
            trial = self._trial(self.serve.scenario, rate, MIN_QUERIES[self.serve.percentile], duration_s)
            found = judge(self.answer, len(self.sizes), self.workers, trial, self.folder / folder)
            whole = world.gather(found)
            run = world.broadcast(None if whole is None else self._describe_run(whole, number, rate))
            assert run is not None
            done.append(run)
            return Tried(rate=rate, is_valid=run.is_valid, found=run)

        done: list[LoadGenRun] = []
        if self.serve.scenario == "server":
            search_highest(attempt, slowest)
        else:
            attempt(slowest * 1.2)
        valid = [run for run in done if run.is_valid]
        if not valid:
            raise RefusedByAllError(self._say_none_valid(done, timed), ExitCode.INCONCLUSIVE)
        best = max(valid, key=lambda run: run.completed_per_s)
        if world.rank != 0:
            return None
        return Found(
            timed=timed,
            modelled=replace(modelled, rate=slowest * world.size),
            overhead_s=overhead_s,
            runs=tuple(done),
            best=best,
            service=service,
            traffic=traffic,
        )

    def _trial(self, scenario: Scenario, rate: float, min_queries: int, duration_s: float) -> Trial:
        return Trial(
            scenario=scenario,
            rate=rate,
            limit_s=self.limit.seconds,
            share=self.limit.share,
            min_queries=min_queries,
            min_duration_s=duration_s,
            seed=self.seed,
        )

    def _describe_run(self, found: Sequence[Judgement], folder: str, rate: float) -> LoadGenRun:
        key = f"{self.serve.percentile:.2f}"
        late = [judgement.num_late for judgement in found if judgement.num_late is not None]
        return LoadGenRun(
            folder=folder,
            asked_per_s=rate,
            completed_per_s=sum(judgement.completed_per_s for judgement in found),
            num_queries=sum(judgement.num_queries for judgement in found),
            num_late=sum(late) if late else None,
            duration_s=max(judgement.duration_s for judgement in found),
            mean_s=sum(judgement.mean_s for judgement in found) / len(found),
            latency_s=max(judgement.latencies_s[key] for judgement in found),
            is_valid=all(judgement.is_valid for judgement in found),
            reason=next((judgement.reason for judgement in found if judgement.reason is not None), None),
        )

    def _say_no_rate(self, timed: Sequence[TimedSize]) -> str:
        slowest_s = max(self._percentile_s(size) for size in timed if size.num_queries == 1)
        return (
            f"no rate meets the limit: service alone takes up to {slowest_s * 1e3:.3g} ms at "
            f"p{self.serve.percentile:g}, the limit is {self.limit.seconds * 1e3:g} ms. Give a longer "
            "--target-latency, smaller --queries, or more threads."
        )

    def _say_none_valid(self, done: Sequence[LoadGenRun], timed: Sequence[TimedSize]) -> str:
        least = min(done, key=lambda run: run.asked_per_s)
        slowest_s = max(self._percentile_s(size) for size in timed if size.num_queries == 1)
        limit = f"; the limit is {self.limit.seconds * 1e3:g} ms" if self.serve.scenario == "server" else ""
        return (
            f"no run of LoadGen was VALID: at {least.asked_per_s:,.4g} queries/s p{self.serve.percentile:g} was "
            f"{least.latency_s * 1e3:.3g} ms ({least.reason}), where service alone takes up to "
            f"{slowest_s * 1e3:.3g} ms{limit}. See {self.folder}."
        )

    def _percentile_s(self, size: TimedSize) -> float:
        return percentile_of(np.asarray(size.seconds), self.serve.share)

    def describe_service(self, timed: Sequence[TimedSize]) -> tuple[ServiceTime, ...]:
        """Describe what was timed, as the record has it."""
        return tuple(
            ServiceTime(
                items=size.items,
                num_queries=size.num_queries,
                num_calls=len(size.seconds),
                mean_s=size.mean_s,
                percentile_s=self._percentile_s(size),
            )
            for size in timed
        )


def _slowest(rates: Sequence[float | None]) -> float | None:
    """The rate that all can do; None where one can do none."""
    found = [rate for rate in rates if rate is not None]
    return min(found) if len(found) == len(rates) else None


def serve_queries(job: ServeJob, world: World, on_event: OnEvent) -> ServeRecord | None:
    """Build the model, measure, let LoadGen judge; the record on rank 0. Raises HarnessError (exit 7)."""
    require_loadgen()
    from harness.measure.serving.model import build_served

    started = datetime.now(UTC)
    benchmark, config = job.parse()
    serve = parse_serve(benchmark.sections.get("serve", {}))
    num_threads = config.runtime.threads or 1
    served, quality = build_served(
        config,
        serve,
        Path(job.data_dir),
        job.seed,
        benchmark.definition_sha256,
        threads=max(1, num_threads // serve.threads),
        with_quality=world.rank == 0,
    )
    seed = (job.seed + world.rank) % 2**62
    bench = Bench(
        answer=served.answer,
        sizes=served.sizes,
        serve=serve,
        seed=seed,
        folder=Path(job.folder) / "loadgen",
        on_event=on_event,
    )
    found, alone = measure_beside(bench.measure, bench.measure_overhead, world)
    if found is None:
        return None
    if found.modelled.curve:
        rates = [rate for rate, _ in found.modelled.curve]
        workers, overhead_s = bench.workers, found.overhead_s
        study = make_queue_study(benchmark, serve, seed, rates, found.traffic, found.service, workers, overhead_s)
        write_record(Path(job.folder) / STUDY_FILE, study)
    mean_items = sum(served.sizes) / len(served.sizes)
    num_copies = world.size
    process = ServeProcess(
        queries_per_s=found.best.completed_per_s,
        items_per_s=found.best.completed_per_s * mean_items,
        latency_s=found.best.latency_s,
        modelled_per_s=found.modelled.rate,
        alone_per_s=None if alone is None else alone.best.completed_per_s,
        overhead_s=found.overhead_s,
        service=bench.describe_service(found.timed),
        curve=tuple(
            CurvePoint(queries_per_s=rate * num_copies, latency_s=latency_s + found.overhead_s)
            for rate, latency_s in found.modelled.curve
        ),
        runs=found.runs,
        quality=quality,
        peak_rss_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        started_utc=started.isoformat(timespec="milliseconds"),
        ended_utc=datetime.now(UTC).isoformat(timespec="milliseconds"),
    )
    return ServeRecord(
        schema_version=VERSION,
        scenario=serve.scenario,
        target_latency_s=serve.limit_s,
        percentile=serve.percentile,
        queries=serve.queries,
        mean_items=mean_items,
        problem_sha256=serve.problem_sha256,
        batch=serve.batch,
        batch_wait_s=serve.batch_wait_ms / 1e3,
        num_workers=serve.threads,
        num_threads=num_threads,
        num_copies=num_copies,
        is_oversubscribed=num_copies * num_threads > read_resources().num_cores,
        weights="kept" if serve.weights else "trained" if serve.train_samples else "random",
        precision=config.runtime.precision,
        table_precision=config.runtime.table_precision,
        model_bytes=served.servable.served_bytes.total_bytes,
        loadgen_version=version("mlcommons-loadgen"),
        processes=(process,),
    )


def measure_beside(
    measure: Callable[[World, str, float], Found | None], measure_overhead: Callable[[], float], world: World
) -> tuple[Found | None, Found | None]:
    """Measure all ranks beside each other, and before that rank 0 alone where there are several."""
    overheads = world.gather(measure_overhead() if world.rank == 0 else 0.0)
    overhead_s = world.broadcast(overheads[0] if overheads else 0.0)
    alone: Found | None = None
    if world.size > 1:
        failed = None
        if world.rank == 0:
            try:
                alone = measure(SingleProcess(), "alone", overhead_s)
            except HarnessError as error:
                failed = error
        failed = world.broadcast(failed)
        if failed is not None:
            raise failed
    return measure(world, "run", overhead_s), alone


def count_copies(job: Any) -> int:
    """Return the processes that a job is done in."""
    return parse_serve(job.tables.get("serve", {})).colocate


KIND = MeasurementKind(
    name="serve",
    job=ServeJob,
    record=ServeRecord,
    run=serve_queries,
    usual_processes=USUAL_PROCESSES,
    is_served=True,
    num_ranks=count_copies,
)
