"""The measurement of what answers queries: its service times, the modelled bound, the runs of LoadGen around it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from harness.config.serving import ServeConfig
from harness.foundation.errors import ExitCode, HarnessError, RefusedByAllError
from harness.measure.kinds import OnEvent
from harness.measure.serving.bound import Limit, ModelledBound, model_bound, most_per_s
from harness.measure.serving.loadgen import LoadGenVerdict, Scenario, ScheduledRun, judge
from harness.measure.serving.queue import (
    ServiceTimes,
    Times,
    Traffic,
    Workers,
    answer_alone,
    draw_traffic,
    percentile_of,
)
from harness.measure.serving.schedule import choose_schedule
from harness.measure.serving.search import search_highest
from harness.measure.serving.timing import TimedSize, fit_service, time_calls
from harness.measure.serving.worker_pool import Answer
from reference_models.process.world import SingleProcess, World
from rules.records.measured.serve import LoadGenRun, ServiceTime

TIMING_S = 1.0
RUN_LATE = 100
"""Queries that may be late by the percentile, of one LoadGen run that takes no longer than `RUN_MOST_S`; LoadGen then
allows three quarters of them, and finds the bound of a constant service time some 2 % below the truth."""
RUN_S, RUN_MOST_S, RUN_LIMITS = 2.0, 5.0, 20
"""Least seconds of one LoadGen run, usual most, and least in multiples of the limit: a queue that grows by a
twentieth shows."""
LONGEST_RUN_S = 40.0
"""What the fewest queries take at the lowest rate that is tried, unless that is a fourth of the modelled one."""
NUM_SIMULATED = 20_000
NUM_SIMULATED_FAST = 200_000
"""Queries to simulate for one worker that takes one after the other, which needs no loop."""
MIN_QUERIES = {50.0: 100, 90.0: 100, 95.0: 200, 97.0: 340, 99.0: 1000, 99.9: 10_000}
"""By percentile, so that LoadGen can be sure: of ln .01 / ln p of them (44, 90, 152, 459, 4603) none may be late, of
more some."""
_OVERHEAD_RATE, _OVERHEAD_QUERIES, _OVERHEAD_S = 1000.0, 400, 0.4


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessMeasurements:
    """What one process, or several beside each other, did."""

    timed: Sequence[TimedSize]
    modelled: ModelledBound
    overhead_s: float
    runs: tuple[LoadGenRun, ...]
    best: LoadGenRun
    service: ServiceTimes
    traffic: Traffic
    """Queries on the virtual clock, whose table is made of them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Bench:
    """Measures what answers queries of a pool: its service times, the modelled bound, the runs of LoadGen."""

    answer: Answer
    sizes: Sequence[int]
    """Items of each query of the pool."""
    serve: ServeConfig
    seed: int
    folder: Path
    """The folder of LoadGen's files."""
    on_event: OnEvent

    @property
    def workers(self) -> Workers:
        return Workers(count=self.serve.threads, max_items=self.serve.batch, wait_s=self.serve.batch_wait_ms / 1e3)

    @property
    def limit(self) -> Limit:
        """Return the server's latency limit; any limit where the scenario has none."""
        return Limit(seconds=self.serve.limit_s or 1.0, share=self.serve.share)

    def measure_overhead(self) -> float:
        """Return the median latency that LoadGen sees of a system that does nothing, in seconds."""
        trial = self._trial("server", _OVERHEAD_RATE, _OVERHEAD_QUERIES, _OVERHEAD_S, self.seed)
        found = judge(lambda parts: None, self.sizes, Workers(), trial, self.folder / "overhead")
        overhead_s = found.latencies_s["50.00"]
        self._say(f"LoadGen adds {overhead_s * 1e3:.3g} ms to a query")
        return overhead_s

    def measure(self, world: World, name: str, overhead_s: float) -> ProcessMeasurements | None:
        """Measure on every rank of `world`, at equal rates; what was found on rank 0. LoadGen's files are in `name`.

        Raises HarnessError (exit 7) on every rank where no rate meets the limit.
        """
        world.barrier()
        self._say("timing calls")
        timed = time_calls(self.answer, self.sizes, self.workers, TIMING_S)
        service = fit_service(timed, self.serve.batch or max(self.sizes))
        is_fast = self.workers.count == 1 and self.workers.max_items is None
        num_simulated = NUM_SIMULATED_FAST if is_fast else NUM_SIMULATED
        traffic = draw_traffic(num_simulated, self.sizes, service, self.seed)
        modelled = self._model(traffic, service, overhead_s)
        rates = world.gather(modelled.rate)
        slowest = world.broadcast(None if rates is None else _slowest(rates))
        if slowest is None:
            raise RefusedByAllError(
                self._say_no_rate(answer_alone(traffic, service, self.workers)), ExitCode.INCONCLUSIVE
            )

        schedule_seed = self._choose_schedule(traffic, service, slowest, overhead_s)

        def attempt(rate: float) -> bool:
            number = f"{name}_{len(done) + 1}"
            self._say(f"LoadGen asks {rate:,.4g} queries/s{self._say_found(done[-1]) if done else ''}")
            world.barrier()
            folder = Path(number) if world.size == 1 else Path(number) / f"process_{world.rank}"
            trial = self._trial(self.serve.scenario, rate, self.min_queries, self.run_s(rate), schedule_seed)
            found = judge(self.answer, self.sizes, self.workers, trial, self.folder / folder)
            whole = world.gather(found)
            run = world.broadcast(None if whole is None else self._describe_run(whole, number, rate))
            assert run is not None
            done.append(run)
            return run.is_valid

        done: list[LoadGenRun] = []
        if self.serve.scenario == "server":
            search_highest(attempt, slowest, least=min(slowest / 4, self.min_queries / LONGEST_RUN_S))
        else:
            attempt(slowest * 1.2)
        if done:
            self._say(f"LoadGen has ended{self._say_found(done[-1])}")
        valid = [run for run in done if run.is_valid]
        if not valid:
            raise RefusedByAllError(
                self._say_none_valid(done, answer_alone(traffic, service, self.workers)), ExitCode.INCONCLUSIVE
            )
        best = max(valid, key=lambda run: run.completed_per_s)
        if world.rank != 0:
            return None
        return ProcessMeasurements(
            timed=timed,
            modelled=replace(modelled, rate=slowest * world.size),
            overhead_s=overhead_s,
            runs=tuple(done),
            best=best,
            service=service,
            traffic=traffic,
        )

    def _model(self, traffic: Traffic, service: ServiceTimes, overhead_s: float) -> ModelledBound:
        """Say on the virtual clock what LoadGen will find; the overhead is taken off the limit."""
        if self.serve.scenario == "server":
            limit = self._limit_without(overhead_s)
            return model_bound(traffic, service, self.workers, limit, self.count_queries)
        if self.serve.scenario == "offline":
            return ModelledBound(rate=most_per_s(traffic, service, self.workers), curve=())
        return ModelledBound(rate=1 / float(answer_alone(traffic, service, self.workers).mean()), curve=())

    def _limit_without(self, overhead_s: float) -> Limit:
        return replace(self.limit, seconds=self.limit.seconds - overhead_s)

    def _choose_schedule(self, traffic: Traffic, service: ServiceTimes, rate: float, overhead_s: float) -> int:
        if self.serve.scenario != "server":
            return self.seed
        num_queries, limit = self.count_queries(rate), self._limit_without(overhead_s)
        return choose_schedule(self.seed, num_queries, rate, traffic, service, self.workers, limit)

    @property
    def min_queries(self) -> int:
        return MIN_QUERIES[self.serve.percentile]

    def run_s(self, rate: float) -> float:
        """Return the seconds that a run of LoadGen takes at least, at that rate."""
        if self.serve.scenario != "server":
            return RUN_S
        return max(RUN_S, RUN_LIMITS * self.limit.seconds, min(RUN_LATE / (1 - self.limit.share) / rate, RUN_MOST_S))

    def count_queries(self, rate: float) -> int:
        """Return the queries that a run of LoadGen issues at that rate, about."""
        return max(self.min_queries, round(rate * self.run_s(rate)))

    def _say(self, doing: str) -> None:
        self.on_event({"event": "progress", "doing": doing})

    def _say_found(self, run: LoadGenRun) -> str:
        verdict = "VALID" if run.is_valid else "INVALID"
        return f"; {run.asked_per_s:,.4g} was {verdict}, p{self.serve.percentile:g} {run.latency_s * 1e3:.3g} ms"

    def _trial(
        self, scenario: Scenario, rate: float, min_queries: int, duration_s: float, schedule_seed: int
    ) -> ScheduledRun:
        return ScheduledRun(
            scenario=scenario,
            rate=rate,
            limit_s=self.limit.seconds,
            share=self.limit.share,
            min_queries=min_queries,
            min_duration_s=duration_s,
            seed=self.seed,
            schedule_seed=schedule_seed,
        )

    def _describe_run(self, found: Sequence[LoadGenVerdict], folder: str, rate: float) -> LoadGenRun:
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

    def _say_no_rate(self, alone_s: Times) -> str:
        return (
            f"no rate meets the limit: {self._say_alone(alone_s)}, the limit is {self.limit.seconds * 1e3:g} ms. "
            "Give a longer --target-latency, smaller --queries, or more threads."
        )

    def _say_none_valid(self, done: Sequence[LoadGenRun], alone_s: Times) -> str:
        least = min(done, key=lambda run: run.asked_per_s)
        limit = f"; the limit is {self.limit.seconds * 1e3:g} ms" if self.serve.scenario == "server" else ""
        return (
            f"no run of LoadGen was VALID: at {least.asked_per_s:,.4g} queries/s p{self.serve.percentile:g} was "
            f"{least.latency_s * 1e3:.3g} ms ({least.reason}), where {self._say_alone(alone_s)}{limit}. "
            f"See {self.folder}."
        )

    def _say_alone(self, alone_s: Times) -> str:
        took_ms = percentile_of(alone_s, self.limit.share) * 1e3
        return f"service alone takes {took_ms:.3g} ms at p{self.serve.percentile:g}"

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


def measure_beside(
    measure: Callable[[World, str, float], ProcessMeasurements | None],
    measure_overhead: Callable[[], float],
    world: World,
) -> tuple[ProcessMeasurements | None, ProcessMeasurements | None]:
    """Measure all ranks beside each other, and before that rank 0 alone where there are several."""
    overheads = world.gather(measure_overhead() if world.rank == 0 else 0.0)
    overhead_s = world.broadcast(overheads[0] if overheads else 0.0)
    alone: ProcessMeasurements | None = None
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
