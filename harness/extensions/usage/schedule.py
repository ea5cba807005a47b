"""When frames of several models are worked on: earliest deadline first, without preemption, on several workers.

One loop serves both clocks: the virtual one, on which a frame takes the time that was drawn for it, and the real one
of `harness.extensions.usage.crew`.
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

GRID, MAX_STEPS = 0.01, 10_000
"""The grid of factors on all rates, and how far it is searched."""
Seconds = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True)
class Frame:
    """One request of a model. One that follows another is released with it, and ready when that one is done."""

    model: str
    number: int
    release_s: float
    within_s: float
    """From its release to its deadline."""
    after: int | None = None
    """The place of the frame that it follows."""

    @property
    def deadline_s(self) -> float:
        return self.release_s + self.within_s


class Span(NamedTuple):
    """When a frame was worked on, and by whom."""

    worker: int
    begin_s: float
    end_s: float


Spans = Sequence[Span | None]
"""What became of frames, in their order; None of one that was dropped."""


class Clock(Protocol):
    """What takes frames and says when they are done."""

    def begin(self, worker: int, frame: int, now_s: float) -> None: ...

    def wait(self, until_s: float | None) -> tuple[float, list[tuple[int, Span]]]:
        """Wait until a frame is done, or `until_s`: the time then, and the frames that are done since."""


def draw_frames(usage: Usage, seed: int) -> list[Frame]:
    """Draw all frames of a usage: the same for the same seed, and at every factor but for the time between them."""
    frames: list[Frame] = []
    for index, (name, model) in enumerate(usage.models.items()):
        rng, rate = np.random.default_rng((seed, index)), model.rate or 0.0
        count, releases = usage.duration_s * rate, list[tuple[int, float, int | None]]()
        if model.after is not None:
            releases = [
                (frame.number, frame.release_s, place)
                for place, frame in enumerate(frames)
                if frame.model == model.after
            ]
        else:
            random = model.arrivals == "poisson"
            times_s = rng.exponential(1 / rate, round(2 * count) + 20).cumsum() if random else np.arange(count) / rate
            kept_s = times_s[times_s < usage.duration_s] / usage.factor
            releases = [(number, release_s, None) for number, release_s in enumerate(kept_s.tolist())]
        is_asked = rng.random(len(releases)) < model.probability
        frames += [
            Frame(model=name, number=number, release_s=release_s, within_s=usage.within_s(name), after=after)
            for (number, release_s, after), asked in zip(releases, is_asked, strict=True)
            if asked
        ]
    return frames


def run_schedule(frames: Sequence[Frame], num_workers: int, clock: Clock) -> list[Span | None]:
    """Let workers take frames, the earliest deadline first, then the earliest release; return when each was done.

    A frame is dropped that has not begun at its deadline, or that follows one which was dropped.
    """
    spans: list[Span | None] = [None] * len(frames)
    followers: dict[int | None, list[int]] = {}
    for place, frame in enumerate(frames):
        followers.setdefault(frame.after, []).append(place)
    coming = deque(sorted(followers.pop(None, []), key=lambda place: frames[place].release_s))
    ready: list[tuple[float, float, int]] = []
    idle, now_s = list(range(num_workers)), 0.0

    def put(place: int) -> None:
        heapq.heappush(ready, (frames[place].deadline_s, frames[place].release_s, place))

    while True:
        while coming and frames[coming[0]].release_s <= now_s:
            put(coming.popleft())
        while idle and ready:
            deadline_s, _, place = heapq.heappop(ready)
            if now_s <= deadline_s:
                clock.begin(heapq.heappop(idle), place, now_s)
        if not coming and len(idle) == num_workers:
            return spans
        now_s, done = clock.wait(frames[coming[0]].release_s if coming else None)
        for place, span in done:
            spans[place] = span
            heapq.heappush(idle, span.worker)
            for follower in followers.get(place, ()):
                put(follower)


class VirtualClock:
    """A clock on which each frame takes `service_s` [frames]."""

    def __init__(self, service_s: Seconds) -> None:
        self._service_s = service_s.tolist()
        self._running: list[tuple[float, int, int, float]] = []

    def begin(self, worker: int, frame: int, now_s: float) -> None:
        heapq.heappush(self._running, (now_s + self._service_s[frame], worker, frame, now_s))

    def wait(self, until_s: float | None) -> tuple[float, list[tuple[int, Span]]]:
        if until_s is not None and not (self._running and self._running[0][0] <= until_s):
            return until_s, []
        end_s, done = self._running[0][0], []
        while self._running and self._running[0][0] == end_s:
            _, worker, frame, begin_s = heapq.heappop(self._running)
            done.append((frame, Span(worker, begin_s, end_s)))
        return end_s, done


def draw_service(frames: Sequence[Frame], times_s: Mapping[str, Sequence[float]], seed: int) -> Seconds:
    """Draw how long each frame takes out of its model's measured times, of which each comes equally often."""
    service_s = np.empty(len(frames))
    for index, (name, measured_s) in enumerate(times_s.items()):
        of_model = [place for place, frame in enumerate(frames) if frame.model == name]
        drawn_s = np.random.default_rng((seed, index, 1)).permutation(measured_s)
        service_s[of_model] = np.resize(drawn_s, len(of_model))
    return service_s


def first_failure(frames: Sequence[Frame], spans: Spans) -> Frame | None:
    """Return the frame with the earliest deadline of those that were dropped or late; None where all met theirs."""
    pairs = zip(frames, spans, strict=True)
    failed = (frame for frame, span in pairs if span is None or span.end_s > frame.deadline_s)
    return min(failed, key=lambda frame: frame.deadline_s, default=None)


def find_highest_factor(usage: Usage, seed: int, service_s: Seconds) -> tuple[float, Frame | None]:
    """Find the highest factor on all rates, on a grid of 1 %, at and below which every deadline is met.

    Return it, 0.0 where there is none, and the frame that fails first above; None where the grid ends before. Without
    preemption, a higher rate may meet deadlines that a lower one does not: steps that are not sure are all tried.
    """
    steps = range(1, MAX_STEPS + 1)

    def draw(step: int) -> list[Frame]:
        return draw_frames(replace(usage, factor=step * GRID), seed)

    for step in steps[bisect_left(steps, True, key=lambda step: not _are_surely_met(draw(step), service_s)) :]:
        frames = draw(step)
        if failed := first_failure(frames, run_schedule(frames, usage.workers, VirtualClock(service_s))):
            return (step - 1) * GRID, failed
    return MAX_STEPS * GRID, None


def _are_surely_met(frames: Sequence[Frame], service_s: Seconds) -> bool:
    """Return whether even at the end of the busy period of a single worker every frame in it would be in time.

    Several workers have done all work no later; and at a lower factor the period of a frame ends no later after its
    release, so that what is sure at one factor is sure below.
    """
    if not frames:
        return True
    order = np.argsort([frame.release_s for frame in frames], kind="stable")
    releases_s = np.array([frame.release_s for frame in frames])[order]
    work_s = np.cumsum(service_s[order])
    ends_s = work_s + np.maximum.accumulate(releases_s - work_s + service_s[order])
    is_last = np.append(releases_s[1:] > ends_s[:-1], True)
    period_ends_s = ends_s[is_last][np.cumsum(is_last) - is_last]
    return bool(np.all(period_ends_s < np.array([frame.deadline_s for frame in frames])[order]))
