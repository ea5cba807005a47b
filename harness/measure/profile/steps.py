"""Time training steps with and without stamps for their phases, alternately in blocks, and the phases of a forward
pass."""

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import torch
from scipy.stats import quantile_test

from harness.foundation.errors import HarnessError
from harness.measure.clock import Clock
from harness.measure.profile.measure_ceilings import spread_of
from harness.measure.throughput import train_steps
from reference_models.data.store.dataset import Batch
from reference_models.serving.servable import ReportsForwardPhases, Servable
from reference_models.training.phases import Enter, Phase, ReportsPhases, TimesReplay
from reference_models.training.workload import Workload
from rules.records.profile import MeasuredStep

_WARM_UP_STEPS = 5
_BLOCK_S = 0.05
_BUDGET_S = 12.0
_LEAST_BLOCKS, _MOST_BLOCKS = 10, 120
_WARM_UP_ANSWERS, _LEAST_ANSWERS, _ANSWERS_BUDGET_S = 3, 20, 0.4


class ProfiledWorkload(Workload, ReportsPhases, Protocol):
    """Workload whose training steps can be profiled."""


class Timeline:
    """Collector of time stamps at the begin of phases (parts of a training step or of a forward pass). One stamp
    takes about 0.1 µs on a CPU.

    On a CUDA device a stamp is an event on the current stream, so that the host does not wait for the device.
    """

    def __init__(self, device: torch.device) -> None:
        self._stamps: list[tuple[str, Any]] = []
        self._is_cuda = device.type == "cuda"
        self.enter: Enter = self._record_event if self._is_cuda else _stamping(self._stamps)

    def _record_event(self, phase: str) -> None:
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        self._stamps.append((phase, event))

    def take(self) -> dict[str, float]:
        """Return the seconds in each phase, summed over the steps since the last call, and begin anew. The present
        phase ends with this call.

        On a GPU this waits until the device has finished its work.
        """
        self.enter(Phase.OTHER)
        if self._is_cuda:
            torch.cuda.synchronize()
        stamps = self._stamps.copy()
        self._stamps.clear()
        seconds: dict[str, float] = {}
        for (phase, start), (_, stop) in pairwise(stamps):
            took_s = start.elapsed_time(stop) / 1e3 if self._is_cuda else (stop - start) / 1e9
            seconds[phase] = seconds.get(phase, 0.0) + took_s
        return seconds


def _stamping(stamps: list[tuple[str, Any]]) -> Enter:
    """Return a function that appends a phase and the present time to `stamps`. It makes no attribute look-ups, which
    would take time inside the measurement."""
    append: Callable[[tuple[str, Any]], None] = stamps.append
    now = time.monotonic_ns

    def enter(phase: str) -> None:
        append((phase, now()))

    return enter


@dataclass(frozen=True, kw_only=True, slots=True)
class StepTimes:
    """Times of alternate blocks of training steps, in seconds per step: without instrumentation, as in a run, and
    instrumented, with the time of each phase."""

    steps_per_block: int
    plain_s: tuple[float, ...]
    instrumented_s: tuple[float, ...]
    phases_s: tuple[dict[str, float], ...]

    @property
    def step_s(self) -> float:
        """Seconds per training step: the median over the blocks without instrumentation."""
        return statistics.median(self.plain_s)

    def phase_times_s(self) -> dict[str, float]:
        """Return the seconds per training step in each phase that was entered; their sum is the time of a step."""
        return average_middle(self.phases_s, self.instrumented_s)

    def measured(self, batch_size: int) -> MeasuredStep:
        """Return a summary of the timed blocks of steps. The cost of instrumentation is the median, over pairs of
        neighbouring blocks, of the instrumented time divided by the plain time, minus 1."""
        pairs = zip(self.instrumented_s, self.plain_s, strict=True)
        ratios = [instrumented / plain - 1 for instrumented, plain in pairs]
        unnamed_s = sum(phases.get(Phase.OTHER, 0.0) for phases in self.phases_s)
        return MeasuredStep(
            num_blocks=len(self.plain_s),
            steps_per_block=self.steps_per_block,
            step_s=self.step_s,
            fastest_step_s=min(self.plain_s),
            instrumented_step_s=statistics.median(self.instrumented_s),
            fastest_instrumented_step_s=min(self.instrumented_s),
            samples_per_s=batch_size / self.step_s,
            step_spread=spread_of(self.plain_s),
            named_share=1 - unnamed_s / sum(self.instrumented_s),
            instrumentation_cost=statistics.median(ratios),
            instrumentation_cost_interval=compute_median_interval(ratios),
        )


def average_middle(phases_s: Sequence[Mapping[str, float]], whole_s: Sequence[float]) -> dict[str, float]:
    """Return the mean seconds of each phase over the middle half of the repetitions when sorted by their total time.
    That leaves out outliers, and the phases' means add up to the mean total."""
    by_time = sorted(range(len(whole_s)), key=lambda number: whole_s[number])
    quarter = len(by_time) // 4
    middle = [phases_s[number] for number in by_time[quarter : len(by_time) - quarter]]
    entered = dict.fromkeys(phase for phases in phases_s for phase in phases)
    return {phase: statistics.fmean(phases.get(phase, 0.0) for phases in middle) for phase in entered}


def measure_answers(servable: Servable, batch: Batch, device: torch.device) -> dict[str, float]:
    """Return the seconds in each phase of a batch's forward pass. Raises HarnessError for a model without such
    phases."""
    if not isinstance(servable, ReportsForwardPhases):
        raise HarnessError("the model does not report the phases of its forward pass and cannot be profiled so.")
    timeline = Timeline(device)
    for _ in range(_WARM_UP_ANSWERS):
        servable.answer(batch)
    taken: list[dict[str, float]] = []
    until_s = time.monotonic() + _ANSWERS_BUDGET_S
    while len(taken) < _LEAST_ANSWERS or time.monotonic() < until_s:
        servable.answer_in_phases(batch, timeline.enter)
        taken.append(timeline.take())
    return average_middle(taken, [sum(phases.values()) for phases in taken])


def measure_steps(workload: ProfiledWorkload, device: torch.device, num_steps: int | None) -> StepTimes:
    """Time at least `num_steps` training steps with time stamps for their phases, and as many without, alternately in
    blocks; where `num_steps` is None, as many as fit into a time budget."""
    clock = Clock(workload.synchronize)

    def time_steps(num_steps: int) -> float:
        started_s = clock.elapsed_s()
        train_steps(workload.train, num_steps)
        return clock.elapsed_s() - started_s

    train_steps(workload.train, _WARM_UP_STEPS)
    step_s = time_steps(_WARM_UP_STEPS) / _WARM_UP_STEPS
    steps_per_block = max(1, round(_BLOCK_S / step_s))
    if num_steps is None:
        fitting = int(_BUDGET_S / (2 * steps_per_block * step_s))
        num_blocks = min(_MOST_BLOCKS, max(_LEAST_BLOCKS, fitting))
    else:
        steps_per_block = min(steps_per_block, num_steps)
        num_blocks = math.ceil(num_steps / steps_per_block)
    timeline = Timeline(device)
    plain_s: list[float] = []
    instrumented_s: list[float] = []
    phases_s: list[dict[str, float]] = []

    def run_plain() -> None:
        plain_s.append(time_steps(steps_per_block) / steps_per_block)

    def run_instrumented() -> None:
        with workload.report_phases(timeline.enter):
            took_s = time_steps(steps_per_block)
        instrumented_s.append(took_s / steps_per_block)
        seconds = timeline.take()
        if isinstance(workload, TimesReplay):
            seconds = split_replay(seconds, workload.take_replayed())
        phases_s.append(_per_step(seconds, took_s, steps_per_block))

    for block in range(num_blocks):
        # Alternately, each first in every other block, so that neither always finds the warmer cache.
        for run in (run_plain, run_instrumented) if block % 2 == 0 else (run_instrumented, run_plain):
            run()
    return StepTimes(
        steps_per_block=steps_per_block,
        plain_s=tuple(plain_s),
        instrumented_s=tuple(instrumented_s),
        phases_s=tuple(phases_s),
    )


def split_replay(phases_s: dict[str, float], inside_s: Mapping[str, float]) -> dict[str, float]:
    """Return the seconds by phase with REPLAY (of a CUDA graph) replaced by the phases that were timed inside the
    graph. Time of the replay that belongs to none of these phases is dropped."""
    if not inside_s:
        return phases_s
    seconds = {phase: took_s for phase, took_s in phases_s.items() if phase != Phase.REPLAY}
    for phase, took_s in inside_s.items():
        seconds[phase] = seconds.get(phase, 0.0) + took_s
    return seconds


def _per_step(phases_s: dict[str, float], total_s: float, num_steps: int) -> dict[str, float]:
    """Return seconds per step of each phase; the time before the first and after the last time stamp counts as
    OTHER."""
    named_s = sum(seconds for phase, seconds in phases_s.items() if phase != Phase.OTHER)
    whole = {**phases_s, Phase.OTHER: max(total_s - named_s, 0.0)}
    return {phase: seconds / num_steps for phase, seconds in whole.items()}


def compute_median_interval(values: Sequence[float]) -> tuple[float | None, float | None]:
    """Return the 95 % interval of a median by order statistics, assuming independence; None for an end where values
    are too few."""
    interval: Any = quantile_test(values).confidence_interval(0.95)  # a pair, though the stubs say float
    low, high = float(interval.low), float(interval.high)
    return low if math.isfinite(low) else None, high if math.isfinite(high) else None
