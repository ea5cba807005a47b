"""Measure a served model: the times of its calls, the simulated bound (the highest rate of queries within the latency
limit), and LoadGen's runs at rates around that bound."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from harness.extensions.serving.bound import Limit, ModelledBound, highest_rate, model_bound, most_per_s
from harness.extensions.serving.config import ServeConfig
from harness.extensions.serving.loadgen import LoadGenVerdict, Scenario, ScheduledRun, Seeds, judge
from harness.extensions.serving.records import WIDEST_BRACKET, Contradiction, LoadGenRun, ServiceTime
from harness.extensions.serving.schedule import MIN_QUERIES, QueueModel, draw_arrivals
from harness.extensions.serving.search import RESOLUTION, Bracket, RateAttempt, bracket_of, search_highest
from harness.extensions.serving.spread import SearchCase, SearchSpread, simulate_spread
from harness.extensions.serving.stalls import Call, Stalls, find_stalls
from harness.extensions.serving.timing import TimedSize, choose_calls, fit_service, time_calls
from harness.extensions.serving.worker_pool import Answer, QueryPart
from harness.foundation.errors import ExitCode, RefusedByAllError
from harness.foundation.queue_simulation import (
    ServiceTimes,
    Times,
    Traffic,
    Workers,
    answer_alone,
    draw_traffic,
    percentile_of,
    simulate,
)
from harness.measure.kinds import OnEvent
from reference_models.process.world import World
from reports.text.formatting import duration

TIMING_S = 1.0
LOADED_S = 0.8
"""Length in seconds of the run of LoadGen in which more queries arrive than the service can answer."""
MIN_LOADED = 40
"""Minimum number of queries of the run of LoadGen in which more queries arrive than the service can answer."""
USUAL_RUNS = 4
"""Number of LoadGen's runs in a search whose first rate is near the highest VALID rate; other searches take two
thirds more runs."""
SLOWER = 1.05
"""Factor by which the times of simulated calls of the model are multiplied, to see how far slower calls lower the
highest rate within the latency limit."""
NUM_LATE_DRAWS = 20
"""Number of simulations of a VALID run of LoadGen that had no late queries."""
NONE_LATE = 0.05
"""Smallest share of simulated runs without late queries that agrees with a run of LoadGen without any; with a smaller
share, the simulation contradicts LoadGen's run."""
MOST_ABOVE = 10
"""Highest rate of queries that a search tries with LoadGen, as a multiple of the simulated rate in steady state: at
higher rates the queue would take hours to empty."""
NUM_SIMULATED = 20_000
NUM_SIMULATED_FAST = 200_000
"""Number of queries to simulate for a single worker that does not merge queries, whose simulation is fast."""
_OVERHEAD_RATE, _OVERHEAD_QUERIES, _OVERHEAD_S = 1000.0, 400, 0.4


def make_workers(serve: ServeConfig) -> Workers:
    """Return the workers of a service (threads that answer queries) as [serve] of the benchmark definition sets them,
    or as timing has chosen them."""
    return Workers(
        count=serve.num_workers,
        max_items=serve.max_items,
        wait_s=serve.batch_wait_ms / 1e3,
        split_from=serve.split_from,
    )


def found_words(run: LoadGenRun, percentile: float) -> str:
    """Return LoadGen's verdict on one run in words: '742.8 queries/s was INVALID, p95 2.31 s, while held up'. "While
    held up" means that the service stood still for a reason other than slow calls of the model."""
    verdict = "VALID" if run.is_valid else "INVALID"
    held_up = ", while held up" if run.is_held_up else ""
    return f"{run.asked_per_s:,.4g} queries/s was {verdict}, p{percentile:g} {duration(run.latency_s)}{held_up}"


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessMeasurements:
    """Measurements of one process that answers queries, or of several processes that answered queries at the same
    time."""

    timed: Sequence[TimedSize]
    modelled: ModelledBound
    """Simulated highest rate within the latency limit in steady state, and latencies at other rates."""
    overhead_s: float
    loaded: float | None
    """Factor by which calls of the model take longer while LoadGen overloads the service; None where it was not
    measured."""
    runs: tuple[LoadGenRun, ...]
    best: LoadGenRun
    bracket: Bracket
    """Highest VALID and lowest INVALID rate, in queries per second of each process."""
    loadgen_share: float | None
    """Simulated: highest rate that LoadGen's rule calls VALID, divided by the highest rate within the limit in steady
    state; None without a latency limit."""
    steady_state_missing: Contradiction | None
    """Reason why LoadGen's runs contradict the simulated steady state; None where no run contradicts it, and without
    a latency limit."""
    spread: SearchSpread | None
    """Simulated factors between the result of a search for the highest VALID rate and the true rate. None without a
    latency limit, if too few searches could be simulated, or if many simulated searches find no VALID rate."""
    service: ServiceTimes
    traffic: Traffic
    """Simulated queries (arrivals, items, factors of service times), from which the study's table of latency against
    rate is made."""

    @property
    def valid_per_s(self) -> float:
        """Return the VALID rate of each process in queries per second: the issued rate in the scenario server, the
        completed rate in the other scenarios."""
        return self.best.completed_per_s if self.loadgen_share is None else self.best.asked_per_s

    @property
    def steady_state_per_s(self) -> float | None:
        """Return the simulated steady-state queries per second of each process; None where LoadGen's runs contradict
        the simulation, and without a latency limit."""
        if self.loadgen_share is None or self.steady_state_missing is not None:
            return None
        return self.valid_per_s / self.loadgen_share


@dataclass(frozen=True, kw_only=True, slots=True)
class _Plan:
    """Rates and length of LoadGen's runs, planned before the first run."""

    rate: float
    """Simulated highest rate within the latency limit in steady state, in queries per second of each process."""
    bound: float
    """Simulated highest rate that LoadGen's rule will call VALID, in queries per second of each process."""
    start: float
    """Rate of LoadGen's first run in queries per second: `bound`, or serve.target_qps where that is given."""
    num_queries: int
    """Number of queries of each run of LoadGen. Runs at twice the rate of the search's first run, or more, have a
    multiple of it."""

    @property
    def run_s(self) -> float:
        return self.num_queries / self.start


@dataclass(frozen=True, kw_only=True, slots=True)
class _SteadyState:
    """What simulations tell about the measured rate: the rate that LoadGen's rule calls VALID as a share of the
    steady-state rate; the reason if there is no steady state; and the spread of searches. All are None without a
    latency limit."""

    share: float | None = None
    end: Contradiction | None = None
    spread: SearchSpread | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Bench:
    """Benchmark of the serving of one process: it measures the times of the model's calls, simulates the highest rate
    within the latency limit, and lets LoadGen judge rates."""

    answer: Answer
    sizes: Sequence[int]
    """Number of items (candidates to rank) of each query in the pool from which LoadGen draws queries."""
    serve: ServeConfig
    seed: int
    """Random seed of the simulated queries."""
    seeds: Seeds
    """Random seeds that LoadGen is given: for its choice of samples to load, for the order of samples, and for
    arrival times."""
    folder: Path
    """Folder to which LoadGen writes its log files."""
    on_event: OnEvent

    @property
    def workers(self) -> Workers:
        return make_workers(self.serve)

    @property
    def limit(self) -> Limit:
        """Return the latency limit of the scenario server; in other scenarios an arbitrary limit, which is not
        used."""
        return Limit(seconds=self.serve.limit_s or 1.0, share=self.serve.share)

    @property
    def duration_s(self) -> float:
        """Return the seconds that all runs of LoadGen together should take: serve.duration_s, or the time of
        `USUAL_RUNS` runs of serve.min_duration_s each if that is longer."""
        return max(self.serve.duration_s, USUAL_RUNS * (self.serve.min_duration_s or 0.0))

    def measure_overhead(self) -> float:
        """Return the median latency that LoadGen sees of a system that does nothing, in seconds."""
        trial = self._trial("server", _OVERHEAD_RATE, _OVERHEAD_QUERIES, _OVERHEAD_S)
        found = judge(lambda parts: None, self.sizes, Workers(), trial, self.folder / "overhead")
        overhead_s = found.latencies_s["50.00"]
        self._say(f"LoadGen adds {overhead_s * 1e3:.3g} ms to a query")
        return overhead_s

    def measure(self, world: World, name: str, overhead_s: float) -> ProcessMeasurements | None:
        """Measure on all ranks (processes) of `world` at the same time how many queries per second they serve. All
        ranks get queries at the same rate. Return the measurements on rank 0, None on other ranks.

        LoadGen's files go to the subfolder `name`. Raises HarnessError on every rank if no rate meets the latency
        limit (exit 7), or if serve.duration_s is too short for any run that LoadGen can judge (exit 2).
        """
        world.barrier()
        self._say("timing calls")
        calls = choose_calls(self.sizes, self.workers)
        timed = time_calls(self.answer, calls, self.workers.count, TIMING_S)
        service = fit_service(timed, self.serve.max_items or max(self.sizes))
        is_fast = self.workers.count == 1 and self.workers.max_items is None
        num_simulated = NUM_SIMULATED_FAST if is_fast else NUM_SIMULATED
        traffic = draw_traffic(num_simulated, self.sizes, service, self.seed)
        loaded = self._time_loaded(traffic, service, name) if self.serve.scenario == "server" else None
        service = replace(service, by_items_s=service.by_items_s * (loaded or 1.0))
        modelled = self._model(traffic, service, overhead_s)
        rates = world.gather(modelled.rate)
        slowest = world.broadcast(None if rates is None else _slowest(rates))
        if slowest is None:
            raise RefusedByAllError(
                self._say_no_rate(answer_alone(traffic, service, self.workers)), ExitCode.INCONCLUSIVE
            )
        plan = self._plan(traffic, service, slowest, overhead_s, world)
        done, bracket = self._search(world, name, plan, slowest, timed, service)
        self._say(f"{found_words(done[-1], self.serve.percentile)}; LoadGen has ended")
        if bracket.low is None:
            raise RefusedByAllError(
                self._say_none_valid(done, answer_alone(traffic, service, self.workers)), ExitCode.INCONCLUSIVE
            )
        best = next(run for run in reversed(done) if run.is_valid and run.asked_per_s == bracket.low)
        simulated = _SteadyState()
        if self.serve.scenario == "server":
            model = self._queue(traffic, service, overhead_s)
            plan = self._plan_again(plan, best.num_queries // world.size, model, world)
            if world.rank == 0:
                simulated = self._simulate_beside(done, best, bracket.high, plan, timed, model, world)
        if world.rank != 0:
            return None
        return ProcessMeasurements(
            timed=timed,
            modelled=replace(modelled, rate=slowest * world.size),
            overhead_s=overhead_s,
            loaded=loaded,
            runs=tuple(done),
            best=best,
            bracket=bracket,
            loadgen_share=simulated.share,
            steady_state_missing=simulated.end,
            spread=simulated.spread,
            service=service,
            traffic=traffic,
        )

    def _search(
        self,
        world: World,
        name: str,
        plan: _Plan,
        slowest: float,
        timed: Sequence[TimedSize],
        service: ServiceTimes,
    ) -> tuple[list[LoadGenRun], Bracket]:
        """Let LoadGen judge one query rate after the other, beginning with the planned first rate. All ranks get the
        same rates. In a scenario without a latency limit, there is one rate only."""
        done: list[LoadGenRun] = []
        attempts: list[RateAttempt] = []
        min_duration_s = self.serve.min_duration_s or 0.0

        def try_rate(rate: float) -> RateAttempt:
            number = f"{name}_{len(done) + 1}"
            # At twice the rate twice the queries: a run that ends before a queue can grow is VALID at any rate. Below
            # twice the first rate, runs have the planned number, for which the VALID rate was simulated.
            num_queries = plan.num_queries << max(0, math.floor(math.log2(rate / plan.start)))
            lasts_s = max(num_queries / rate, min_duration_s)
            before = f"{found_words(done[-1], self.serve.percentile)}; now " if done else ""
            self._say(f"{before}LoadGen asks {rate:,.4g} queries/s for {lasts_s:.3g} s")
            world.barrier()
            folder = self.folder / (Path(number) if world.size == 1 else Path(number) / f"process_{world.rank}")
            trial = self._trial(self.serve.scenario, rate, num_queries, min_duration_s)
            judged = self._judge(trial, folder, timed, service)
            whole = world.gather(judged)
            run = world.broadcast(None if whole is None else self._describe_run(whole, number, rate))
            assert run is not None
            done.append(run)
            attempts.append(RateAttempt(rate=rate, is_valid=run.is_valid, is_held_up=run.is_held_up))
            return attempts[-1]

        def may_go_on() -> bool:
            took_s = sum(run.duration_s for run in done)
            has_low = bracket_of(attempts).low is not None
            return bool(world.broadcast(self._may_go_on(took_s, plan.run_s, has_low)))

        if self.serve.scenario == "server":
            least, most = min(slowest / 4, plan.start / 2), max(MOST_ABOVE * slowest, plan.start)
            search_highest(try_rate, plan.start, least=least, most=most, may_go_on=may_go_on)
        else:
            try_rate(self.serve.target_qps or plan.start * 1.2)
        return done, bracket_of(attempts)

    def _simulate_beside(
        self,
        done: Sequence[LoadGenRun],
        best: LoadGenRun,
        high_per_s: float | None,
        plan: _Plan,
        timed: Sequence[TimedSize],
        model: QueueModel,
        world: World,
    ) -> _SteadyState:
        """Simulate two things at the measured VALID rate: the rate in steady state, and by which factors a search may
        miss the true rate."""
        runs = model.draw_runs(self.seeds.schedule, plan.num_queries, NUM_LATE_DRAWS)
        late = [model.count_late(each, best.asked_per_s) for each in runs]
        steady_per_s = best.asked_per_s * plan.rate / plan.bound
        self._say("simulating searches with other arrivals")
        return _SteadyState(
            share=plan.bound / plan.rate,
            end=find_contradiction(done, best, high_per_s, steady_per_s, self.limit.seconds, late),
            spread=simulate_spread(model, self._case(plan, timed, model, world), self.seed),
        )

    def _plan_again(self, plan: _Plan, num_queries: int, model: QueueModel, world: World) -> _Plan:
        """Return the plan of LoadGen's runs, changed for longer runs of `num_queries` queries. The VALID rate to
        expect is simulated again, since it depends on the length of the runs. The plan is returned unchanged if
        `num_queries` hardly exceeds the number of queries in the plan."""
        if num_queries <= plan.num_queries * RESOLUTION:
            return plan
        bounds = world.gather(model.loadgen_bound(self.seeds.schedule, num_queries, plan.rate))
        bound = world.broadcast(None if bounds is None else _slowest(bounds)) or plan.bound
        return replace(plan, bound=bound, num_queries=num_queries)

    def _time_loaded(self, traffic: Traffic, service: ServiceTimes, name: str) -> float:
        """Return the factor by which a call of the model takes longer when LoadGen issues more queries than the
        workers can answer.

        Under this load, LoadGen's issuing, the queue and the workers all need the Python interpreter, one at a time.
        Short calls of the model are therefore slowed considerably.
        """
        rate = 1.5 * most_per_s(traffic, service, self.workers)
        trial = self._trial("server", rate, max(MIN_LOADED, round(rate * LOADED_S)), 0.0)
        found = judge(self.answer, self.sizes, self.workers, trial, self.folder / f"{name}_loaded")
        arrivals_s = draw_arrivals(self.seeds.schedule, found.num_queries)
        places = np.arange(found.num_queries) % len(traffic.items)
        asked = Traffic(arrivals_s=arrivals_s, items=traffic.items[places], factors=traffic.factors[places])
        done_s = float((arrivals_s / rate + simulate(asked, rate, service, self.workers)).max())
        self._say(f"under LoadGen calls take {found.duration_s / done_s:.3g} times as long")
        return found.duration_s / done_s

    def _model(self, traffic: Traffic, service: ServiceTimes, overhead_s: float) -> ModelledBound:
        """Simulate the highest rate in steady state within the latency limit, which is first reduced by LoadGen's
        overhead."""
        limit = self._limit_without(overhead_s)
        if self.serve.scenario == "server":
            return model_bound(traffic, service, self.workers, limit)
        return ModelledBound(rate=highest_rate(self.serve.scenario, traffic, service, self.workers, limit), curve=())

    def _plan(self, traffic: Traffic, service: ServiceTimes, rate: float, overhead_s: float, world: World) -> _Plan:
        """Plan the length of LoadGen's runs and the rate of the first run. The plan is the same on every rank
        (process).

        LoadGen's rule allows a smaller share of late queries in a short run than in a long one. Runs are therefore
        made so long that this hardly lowers the VALID rate, as far as serve.duration_s allows. Raises HarnessError
        (exit 2) if serve.duration_s is too short for two of the shortest runs that LoadGen can judge.
        """
        usual_s = self.duration_s / USUAL_RUNS
        asked = self.serve.target_qps
        if asked is not None and asked > MOST_ABOVE * rate:
            raise RefusedByAllError(
                f"serve.target_qps is {asked:,.4g}, more than {MOST_ABOVE} times the {rate:,.3g} queries/s that can "
                "be answered (simulated). Give a lower serve.target_qps.",
                ExitCode.USAGE,
            )
        if self.serve.scenario != "server":
            num_queries = max(self.min_queries, round(rate * usual_s))
            return _Plan(rate=rate, bound=rate, start=asked or rate, num_queries=num_queries)
        model = self._queue(traffic, service, overhead_s)
        near = asked or rate
        counts = world.gather(model.count_queries(rate, usual_s * near / rate, self.min_queries))
        fewest = math.ceil(near * (self.serve.min_duration_s or 0.0))
        num_queries = world.broadcast(max(*counts, fewest) if counts else 0)
        bounds = world.gather(model.loadgen_bound(self.seeds.schedule, num_queries, rate))
        bound = world.broadcast(None if bounds is None else _slowest(bounds)) or rate / 4
        start = asked or bound
        plan = _Plan(rate=rate, bound=bound, start=start, num_queries=num_queries)
        needed_s = 2 * plan.run_s
        if needed_s > self.duration_s:
            raise RefusedByAllError(
                f"serve.duration_s is {self.duration_s:g}, but at {start:,.3g} queries/s two runs of "
                f"{num_queries:,} queries, the fewest that LoadGen can judge at p{self.serve.percentile:g} here, "
                f"take {needed_s:.3g} s. Give --duration {math.ceil(needed_s * 1.1)}s, a longer --target-latency or "
                "a lower --percentile.",
                ExitCode.USAGE,
            )
        self._say(
            f"a run of LoadGen takes {plan.run_s:.3g} s ({num_queries:,} queries): all runs {plan.run_s * 4:.3g} s "
            f"if the first rate is right, usually {2 * self.duration_s:.3g} s at most"
        )
        return plan

    def _may_go_on(self, took_s: float, run_s: float, has_low: bool) -> bool:
        """Return whether one more run of LoadGen, of `run_s` seconds, may follow runs of `took_s` seconds. All runs
        together may take twice `duration_s`; as long as no rate is VALID, they may take four times `duration_s`."""
        return took_s + run_s <= (2 if has_low else 4) * self.duration_s

    def _case(self, plan: _Plan, timed: Sequence[TimedSize], model: QueueModel, world: World) -> SearchCase:
        """Return a description of the search for the highest VALID rate, from which searches can be simulated. It
        includes the standard error of the search's first rate, which is computed from the measured time of the
        model's calls."""
        services_s = model.service.of(model.traffic.items, model.traffic.factors)
        variation = float(services_s.std() / services_s.mean())
        num_timed = sum(len(size.seconds) for size in timed)
        num_loaded = max(MIN_LOADED, 1.5 * LOADED_S * most_per_s(model.traffic, model.service, self.workers))
        slower = replace(model, service=replace(model.service, by_items_s=model.service.by_items_s * SLOWER))
        bound = slower.loadgen_bound(self.seeds.schedule, plan.num_queries, plan.bound) or plan.bound
        sensitivity = max(1.0, math.log(plan.bound / bound) / math.log(SLOWER))
        return SearchCase(
            num_queries=plan.num_queries,
            near=plan.bound,
            start_error=sensitivity * variation * math.sqrt(1 / num_timed + 2 / num_loaded),
            may_go_on=self._may_go_on,
            num_copies=world.size,
        )

    def _queue(self, traffic: Traffic, service: ServiceTimes, overhead_s: float) -> QueueModel:
        limit = self._limit_without(overhead_s)
        return QueueModel(traffic=traffic, service=service, workers=self.workers, limit=limit)

    def _judge(
        self, trial: ScheduledRun, folder: Path, timed: Sequence[TimedSize], service: ServiceTimes
    ) -> tuple[LoadGenVerdict, Stalls]:
        """Let LoadGen judge one rate. Return its verdict and the stalls in that run (times in which the service stood
        still)."""
        calls: list[Call] = []

        def answer(parts: Sequence[QueryPart]) -> None:
            start_s = time.perf_counter()
            self.answer(parts)
            calls.append((sum(part.items for part in parts), time.perf_counter() - start_s))

        verdict = judge(answer, self.sizes, self.workers, trial, folder)
        delays_s: Sequence[float] = ()
        if trial.scenario == "server":
            asked_s = draw_arrivals(trial.seeds.schedule, len(verdict.issued_s)) / trial.rate
            delays_s = (np.asarray(verdict.issued_s) - asked_s).tolist()
        return replace(verdict, issued_s=()), find_stalls(calls, delays_s, timed, service, self.limit)

    def _limit_without(self, overhead_s: float) -> Limit:
        return replace(self.limit, seconds=self.limit.seconds - overhead_s)

    @property
    def min_queries(self) -> int:
        return max(MIN_QUERIES[self.serve.percentile], self.serve.min_queries or 0)

    def _say(self, doing: str) -> None:
        self.on_event({"event": "progress", "doing": doing})

    def _trial(self, scenario: Scenario, rate: float, min_queries: int, duration_s: float) -> ScheduledRun:
        return ScheduledRun(
            scenario=scenario,
            rate=rate,
            limit_s=self.limit.seconds,
            share=self.limit.share,
            min_queries=min_queries,
            min_duration_s=duration_s,
            seeds=self.seeds,
        )

    def _describe_run(self, judged: Sequence[tuple[LoadGenVerdict, Stalls]], folder: str, rate: float) -> LoadGenRun:
        key = f"{self.serve.percentile:.2f}"
        found = [verdict for verdict, _ in judged]
        late = [judgement.num_late for judgement in found if judgement.num_late is not None]
        stalls = max((stalls for _, stalls in judged), key=lambda stalls: stalls.total_s)
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
            stall_s=stalls.longest_s,
            is_held_up=bool(late) and stalls.may_decide(rate, found[0].num_queries, self.serve.share),
        )

    def _say_no_rate(self, alone_s: Times) -> str:
        return (
            f"no rate meets the limit: {self._say_alone(alone_s)}, the limit is {self.limit.seconds * 1e3:g} ms. "
            "Give a longer --target-latency, smaller --queries, or more threads."
        )

    def _say_none_valid(self, done: Sequence[LoadGenRun], alone_s: Times) -> str:
        least = min(done, key=lambda run: run.asked_per_s)
        limit = f"; the limit is {self.limit.seconds * 1e3:g} ms" if self.serve.scenario == "server" else ""
        if held_up := [run.stall_s for run in done if run.is_held_up]:
            limit += (
                f"; {len(held_up)} of {len(done)} runs were held up (calls, or the issuing of queries, stood still), "
                f"for up to {max(held_up) * 1e3:.3g} ms: stop other work, see 'dlrmbench doctor', or give a longer "
                "--target-latency"
            )
        return (
            f"no run of LoadGen was VALID: at {least.asked_per_s:,.4g} queries/s p{self.serve.percentile:g} was "
            f"{least.latency_s * 1e3:.3g} ms ({least.reason}), while {self._say_alone(alone_s)}{limit}. "
            f"See {self.folder}."
        )

    def _say_alone(self, alone_s: Times) -> str:
        took_ms = percentile_of(alone_s, self.limit.share) * 1e3
        return f"service alone takes {took_ms:.3g} ms at p{self.serve.percentile:g}"

    def _percentile_s(self, size: TimedSize) -> float:
        return percentile_of(np.asarray(size.seconds), self.serve.share)

    def describe_service(self, timed: Sequence[TimedSize]) -> tuple[ServiceTime, ...]:
        """Return records of the timed calls of the model, one for each size of a call: its items, its queries, and
        its mean time and percentile in seconds."""
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


def find_contradiction(
    done: Sequence[LoadGenRun],
    best: LoadGenRun,
    high_per_s: float | None,
    steady_per_s: float,
    limit_s: float,
    late: Sequence[int],
) -> Contradiction | None:
    """Return a code for how LoadGen's runs contradict the simulated steady state; None if they do not. `steady_per_s`
    is the simulated rate of each process in queries per second.

    - left_open: no INVALID rate is known near the VALID rate; `high_per_s` is the lowest INVALID rate.
    - invalid_below: a run was INVALID at a rate below the VALID rate, or below `steady_per_s` with a latency at the
      percentile above `limit_s`.
    - none_late: the VALID runs had no late query, though nearly all simulated runs have some. `late` has the number
      of late queries in each simulated run.
    """
    if high_per_s is None or high_per_s > best.asked_per_s * WIDEST_BRACKET:
        return "left_open"
    for run in done:
        if run.is_valid or run.is_held_up:
            continue
        if run.asked_per_s < best.asked_per_s or (run.asked_per_s < steady_per_s and run.latency_s > limit_s):
            return "invalid_below"
    own = [run for run in done if run.is_valid and run.asked_per_s == best.asked_per_s]
    if not any(run.num_late for run in own) and list(late).count(0) < NONE_LATE * len(late):
        return "none_late"
    return None


def _slowest(rates: Sequence[float | None]) -> float | None:
    """Return the lowest of the processes' highest rates, which all processes can answer; None where a process has no
    such rate."""
    found = [rate for rate in rates if rate is not None]
    return min(found) if len(found) == len(rates) else None
