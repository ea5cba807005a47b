"""Timing training steps with and without telling phases, block by block in turn."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from harness.measure.clock import Clock
from harness.measure.profile.timeline import Timeline
from reference_models.process.errors import ConfigError
from reference_models.training.phases import Phase, ReportsPhases
from reference_models.training.workload import Workload

_WARM_UP_STEPS = 5
_BLOCK_S = 0.05
_BUDGET_S = 12.0
_LEAST_BLOCKS, _MOST_BLOCKS = 10, 120


class ProfiledWorkload(Workload, ReportsPhases, Protocol):
    """A workload that can be profiled."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StepTimes:
    """Seconds per step of each block: as a run does it, and with phases told."""

    steps_per_block: int
    plain_s: tuple[float, ...]
    told_s: tuple[float, ...]
    phases_s: tuple[dict[str, float], ...]

    @property
    def step_s(self) -> float:
        """Median over blocks without instrumentation."""
        return statistics.median(self.plain_s)

    @property
    def named_share(self) -> float:
        """Share of all instrumented time that belongs to a phase with a name."""
        unnamed_s = sum(phases.get(Phase.OTHER, 0.0) for phases in self.phases_s)
        return 1 - unnamed_s / sum(self.told_s)

    def phase_times_s(self) -> dict[str, float]:
        """Seconds per step in each phase that was ever entered: means over the middle half of the blocks by their
        whole time, so that disturbed blocks do not count and the phases add up to a step.
        """
        by_time = sorted(range(len(self.told_s)), key=lambda block: self.told_s[block])
        quarter = len(by_time) // 4
        middle = [self.phases_s[block] for block in by_time[quarter : len(by_time) - quarter]]
        entered = dict.fromkeys(phase for phases in self.phases_s for phase in phases)
        return {phase: statistics.fmean(phases.get(phase, 0.0) for phases in middle) for phase in entered}

    def instrumentation_cost(self) -> tuple[float, float, float]:
        """(median, low, high) of the extra time per step, from blocks next to each other; a 95 % interval."""
        ratios = [told / plain - 1 for told, plain in zip(self.told_s, self.plain_s, strict=True)]
        return statistics.median(ratios), *median_interval(ratios)


def measure_steps(workload: ProfiledWorkload, device: torch.device, num_steps: int | None) -> StepTimes:
    """Time at least `num_steps` with and as many without phases; without a number, as many as fit in a budget."""
    clock = Clock(workload.synchronize)
    train_steps(workload, _WARM_UP_STEPS)
    start_s = clock.elapsed_s()
    train_steps(workload, _WARM_UP_STEPS)
    step_s = (clock.elapsed_s() - start_s) / _WARM_UP_STEPS
    steps_per_block = max(1, round(_BLOCK_S / step_s))
    if num_steps is None:
        fitting = int(_BUDGET_S / (2 * steps_per_block * step_s))
        num_blocks = min(_MOST_BLOCKS, max(_LEAST_BLOCKS, fitting))
    else:
        steps_per_block = min(steps_per_block, num_steps)
        num_blocks = math.ceil(num_steps / steps_per_block)
    timeline = Timeline(device)
    plain_s: list[float] = []
    told: list[tuple[float, dict[str, float]]] = []

    def run_plain() -> None:
        started_s = clock.elapsed_s()
        train_steps(workload, steps_per_block)
        plain_s.append((clock.elapsed_s() - started_s) / steps_per_block)

    def run_told() -> None:
        with workload.report_phases(timeline.enter):
            started_s = clock.elapsed_s()
            train_steps(workload, steps_per_block)
            took_s = clock.elapsed_s() - started_s
        told.append((took_s / steps_per_block, _per_step(timeline.take(), took_s, steps_per_block)))

    for block in range(num_blocks):
        # In turn, and each first every other time, so that neither is always the one on a warmer cache.
        for run in (run_plain, run_told) if block % 2 == 0 else (run_told, run_plain):
            run()
    return StepTimes(
        steps_per_block=steps_per_block,
        plain_s=tuple(plain_s),
        told_s=tuple(took_s for took_s, _ in told),
        phases_s=tuple(phases for _, phases in told),
    )


def train_steps(workload: Workload, num_steps: int) -> None:
    """Train exactly `num_steps`, over the end of an epoch where need be."""
    done = 0
    while done < num_steps:
        counts = workload.train(num_steps - done)
        if counts.num_steps == 0:
            raise ConfigError("the dataset holds less than one batch.")
        done += counts.num_steps


def _per_step(phases_s: dict[str, float], total_s: float, num_steps: int) -> dict[str, float]:
    """What no phase claims, before the first or after the last stamp, is OTHER."""
    named_s = sum(seconds for phase, seconds in phases_s.items() if phase != Phase.OTHER)
    whole = {**phases_s, Phase.OTHER: max(total_s - named_s, 0.0)}
    return {phase: seconds / num_steps for phase, seconds in whole.items()}


def median_interval(values: Sequence[float], confidence: float = 0.95) -> tuple[float, float]:
    """Interval for a median by order statistics: no assumption but independence. Everything where values are few."""
    ordered, n = sorted(values), len(values)
    rank, tail = -1, 0.0
    for below in range(n // 2):
        tail += math.comb(n, below) / 2**n
        if 2 * tail > 1 - confidence:
            break
        rank = below
    return (ordered[rank], ordered[n - 1 - rank]) if rank >= 0 else (-math.inf, math.inf)
