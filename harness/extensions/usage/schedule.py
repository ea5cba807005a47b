"""Schedule requests of several models: earliest deadline first, without preemption, on several workers.

The same loop runs on either of two clocks. On the simulated clock a request takes a time that was drawn for it. On
the real clock (`harness.extensions.usage.crew`) a request takes as long as a worker needs to answer it.
"""

import heapq
from bisect import bisect_left
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from harness.extensions.usage.definition import Usage

GRID = 0.01
"""Step between the factors on all request rates that the search for the highest rates tries."""
MAX_STEPS = 10_000
"""Maximum number of factors that the search for the highest request rates tries."""
Seconds = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelRequest:
    """A request of a model. A request may follow an earlier request: both are released at the same time, and the
    following one is ready once the earlier one is done."""

    model: str
    number: int
    release_s: float
    within_s: float
    """Seconds from the release of the request to its deadline."""
    after: int | None = None
    """Index, in the list of requests, of the request that this one follows; None where it follows none."""

    @property
    def deadline_s(self) -> float:
        return self.release_s + self.within_s


class Span(NamedTuple):
    """Time that a worker spends on a request: the worker's number, and the begin and end of the time in seconds."""

    worker: int
    begin_s: float
    end_s: float


Spans = Sequence[Span | None]
"""Worker, begin and end (in seconds) of each request, in the order of requests; None for a dropped request."""


class ScheduleClock(Protocol):
    """A clock of a schedule, real or simulated, that begins requests on workers and says when they are done."""

    def begin(self, worker: int, request: int, now_s: float) -> None: ...

    def wait(self, until_s: float | None) -> tuple[float, list[tuple[int, Span]]]:
        """Wait until a request is done, but at most until `until_s`. Return the time in seconds and, for each request
        that is done, its index and its span (worker, begin and end)."""


def draw_requests(usage: Usage, seed: int) -> list[ModelRequest]:
    """Draw all requests of a usage (the models of one application). With one seed, a factor on the rates changes only
    the times between requests."""
    requests: list[ModelRequest] = []
    for index, (name, model) in enumerate(usage.models.items()):
        rng, rate = np.random.default_rng((seed, index)), model.rate or 0.0
        count, releases = usage.duration_s * rate, list[tuple[int, float, int | None]]()
        if model.after is not None:
            releases = [
                (request.number, request.release_s, place)
                for place, request in enumerate(requests)
                if request.model == model.after
            ]
        else:
            random = model.arrivals == "poisson"
            times_s = rng.exponential(1 / rate, round(2 * count) + 20).cumsum() if random else np.arange(count) / rate
            kept_s = times_s[times_s < usage.duration_s] / usage.factor
            releases = [(number, release_s, None) for number, release_s in enumerate(kept_s.tolist())]
        is_asked = rng.random(len(releases)) < model.probability
        requests += [
            ModelRequest(model=name, number=number, release_s=release_s, within_s=usage.within_s(name), after=after)
            for (number, release_s, after), asked in zip(releases, is_asked, strict=True)
            if asked
        ]
    return requests


def run_schedule(requests: Sequence[ModelRequest], num_workers: int, clock: ScheduleClock) -> list[Span | None]:
    """Let workers take requests, the earliest deadline first, and of equal deadlines the earliest release first.
    Return the span of each request (its worker, begin and end in seconds), or None for a dropped request.

    A request is dropped if it has not begun by its deadline. If a request is to follow another one that is dropped,
    it is dropped too.
    """
    spans: list[Span | None] = [None] * len(requests)
    followers: dict[int | None, list[int]] = {}
    for place, request in enumerate(requests):
        followers.setdefault(request.after, []).append(place)
    coming = deque(sorted(followers.pop(None, []), key=lambda place: requests[place].release_s))
    ready: list[tuple[float, float, int]] = []
    idle, now_s = list(range(num_workers)), 0.0

    def put(place: int) -> None:
        heapq.heappush(ready, (requests[place].deadline_s, requests[place].release_s, place))

    while True:
        while coming and requests[coming[0]].release_s <= now_s:
            put(coming.popleft())
        while idle and ready:
            deadline_s, _, place = heapq.heappop(ready)
            if now_s <= deadline_s:
                clock.begin(heapq.heappop(idle), place, now_s)
        if not coming and len(idle) == num_workers:
            return spans
        now_s, done = clock.wait(requests[coming[0]].release_s if coming else None)
        for place, span in done:
            spans[place] = span
            heapq.heappush(idle, span.worker)
            for follower in followers.get(place, ()):
                put(follower)


class SimulatedClock:
    """Clock of simulated time for a schedule, in which request i takes `service_s[i]` seconds."""

    def __init__(self, service_s: Seconds) -> None:
        self._service_s = service_s.tolist()
        self._running: list[tuple[float, int, int, float]] = []

    def begin(self, worker: int, request: int, now_s: float) -> None:
        heapq.heappush(self._running, (now_s + self._service_s[request], worker, request, now_s))

    def wait(self, until_s: float | None) -> tuple[float, list[tuple[int, Span]]]:
        if until_s is not None and not (self._running and self._running[0][0] <= until_s):
            return until_s, []
        end_s, done = self._running[0][0], []
        while self._running and self._running[0][0] == end_s:
            _, worker, request, begin_s = heapq.heappop(self._running)
            done.append((request, Span(worker, begin_s, end_s)))
        return end_s, done


def draw_service(requests: Sequence[ModelRequest], times_s: Mapping[str, Sequence[float]], seed: int) -> Seconds:
    """Draw the service time in seconds of each request from its model's measured times, each of which comes equally
    often."""
    service_s = np.empty(len(requests))
    for index, (name, measured_s) in enumerate(times_s.items()):
        of_model = [place for place, request in enumerate(requests) if request.model == name]
        drawn_s = np.random.default_rng((seed, index, 1)).permutation(measured_s)
        service_s[of_model] = np.resize(drawn_s, len(of_model))
    return service_s


def first_failure(requests: Sequence[ModelRequest], spans: Spans) -> ModelRequest | None:
    """Return the dropped or late request with the earliest deadline; None where all deadlines were met."""
    pairs = zip(requests, spans, strict=True)
    failed = (request for request, span in pairs if span is None or span.end_s > request.deadline_s)
    return min(failed, key=lambda request: request.deadline_s, default=None)


def find_highest_factor(usage: Usage, seed: int, service_s: Seconds) -> tuple[float, ModelRequest | None]:
    """Find the highest factor on all request rates, in steps of 1 %, such that every deadline is met at this factor
    and at all lower ones.

    Return two values. The first is the factor, 0.0 if there is none. The second is the request that fails first one
    step above the factor, None if no factor makes a request fail. The factors at which deadlines are surely met are
    found by bisection. Above these, every factor is tried in turn: without preemption a higher rate may meet
    deadlines that a lower rate misses.
    """
    steps = range(1, MAX_STEPS + 1)

    def draw(step: int) -> list[ModelRequest]:
        return draw_requests(replace(usage, factor=step * GRID), seed)

    for step in steps[bisect_left(steps, True, key=lambda step: not _are_surely_met(draw(step), service_s)) :]:
        requests = draw(step)
        if failed := first_failure(requests, run_schedule(requests, usage.workers, SimulatedClock(service_s))):
            return (step - 1) * GRID, failed
    return MAX_STEPS * GRID, None


def _are_surely_met(requests: Sequence[ModelRequest], service_s: Seconds) -> bool:
    """Return whether all deadlines are met for certain, judged by a bound without simulating the workers.

    The bound assumes a single worker, and that each request is answered last in its busy period (a time in which the
    worker works without a pause). Several workers are done no later. At lower request rates the bound only becomes
    better, so deadlines that it shows to be met stay met.
    """
    if not requests:
        return True
    order = np.argsort([request.release_s for request in requests], kind="stable")
    releases_s = np.array([request.release_s for request in requests])[order]
    work_s = np.cumsum(service_s[order])
    ends_s = work_s + np.maximum.accumulate(releases_s - work_s + service_s[order])
    is_last = np.append(releases_s[1:] > ends_s[:-1], True)
    period_ends_s = ends_s[is_last][np.cumsum(is_last) - is_last]
    return bool(np.all(period_ends_s < np.array([request.deadline_s for request in requests])[order]))
