"""Time ways to compute a configuration's training step in one fresh process, off every clock; nothing is scored.

The parent (`harness.run_sets.choice`) starts one such process per length of OpenMP's spinning, which a process keeps
for life. Threads are timed with every matrix product in torch.mm's form: another library makes all counts of threads
faster and hardly changes their order.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from harness.config.synthetic import hold_in_memory
from harness.measure.clock import Clock
from harness.measure.kinds import Job, MeasurementKind, OnEvent
from harness.measure.throughput import train_steps
from reference_models.fused.choice import ChoosesMatmul, convert_choice
from reference_models.process.world import World
from rules.records.measure import Measurement
from rules.records.run_set import MatmulRecord, StepTimeRecord

GAIN = 1.05
"""How many times faster another way must be than a plainer one: less is what timing so short cannot tell."""
_MAX_ROUNDS, _MIN_ROUNDS = 6, 2
_LOOK_S, _MAX_LOOKS = 0.5, 4
_ROUND_S, _BUDGET_S = 0.08, 4.0
"""Of steps in a row, and of all rounds; large models make at least two rounds of one step each."""
_HOPELESS, _SLOW = 1.6, 1.3
"""How many times slower than the best so far a count of threads is that ends the search for fewer threads, and one
that is not timed further."""
_HELD_STEPS = 64
"""Batches of synthetic data that are held."""

StepTimer = Callable[[int, int], float]
"""Seconds per step of so many steps in a row, on so many threads."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChoiceJob(Job):
    """What to try: counts of threads, all with the same length of spinning, which is this process's."""

    thread_counts: tuple[int, ...]
    spin_count: int | None
    earlier: tuple[dict[str, Any], ...]
    """What another process has tried: products are timed only where the best of all is one of this process's."""
    previous: dict[str, Any] | None
    """Forms of products, which only clearly faster ones replace."""


class TrialsRecord(Measurement, frozen=True, kw_only=True):
    """What the process found; `matmul` is None where products are not chosen, or the ways here are not the best."""

    tried: tuple[StepTimeRecord, ...]
    matmul: MatmulRecord | None


def plainest(tried: Iterable[StepTimeRecord]) -> StepTimeRecord:
    """Return the way with the fewest threads, then the shortest spinning, that no other beats by `GAIN`."""
    ways = list(tried)
    least_s = min(way.step_s for way in ways)
    fast = [way for way in ways if way.step_s <= least_s * GAIN]
    return min(fast, key=lambda way: (way.num_threads, way.spin_count or 0))


def time_threads(
    thread_counts: Sequence[int], time_steps: StepTimer, clock_s: Callable[[], float]
) -> Mapping[int, float]:
    """Return the seconds of a step on each count of threads that is worth looking at, its least over the rounds.

    Begins with the most threads and goes down until fewer are hopeless; those near the best then take turns.
    """
    least_s: dict[int, float] = {}
    for count in sorted(thread_counts, reverse=True):
        time_steps(count, 1)  # starts threads, and touches what only the first step touches
        looks = [time_steps(count, 1)]
        while sum(looks) < _LOOK_S and len(looks) < _MAX_LOOKS:  # short steps are easily disturbed
            looks.append(time_steps(count, 1))
        least_s[count] = min(looks)
        if least_s[count] > _HOPELESS * min(least_s.values()):
            break
    near = [count for count, step_s in least_s.items() if step_s <= _SLOW * min(least_s.values())]
    began_s = clock_s()
    for finished in range(_MAX_ROUNDS):
        if finished >= _MIN_ROUNDS and clock_s() - began_s > _BUDGET_S:
            break
        for count in near:
            if least_s[count] < _ROUND_S:
                time_steps(count, 1)  # the threads of another count were in its place
            in_a_row = max(1, min(_HELD_STEPS // 2, round(_ROUND_S / max(least_s[count], 1e-6))))
            least_s[count] = min(least_s[count], time_steps(count, in_a_row))
    return least_s


def try_ways(job: ChoiceJob, world: World, on_event: OnEvent) -> TrialsRecord:
    """Build the workload, time its steps on each count of threads, then choose the products of the best."""
    import torch

    config = hold_in_memory(job.parse()[1], _HELD_STEPS)
    workload = config.implementation.load(job.spec(config), world)
    workload.build()
    clock = Clock(workload.synchronize)

    def time_steps(num_threads: int, num_steps: int) -> float:
        torch.set_num_threads(num_threads)
        start_s = clock.elapsed_s()
        train_steps(workload.train, num_steps)
        return (clock.elapsed_s() - start_s) / num_steps

    found = time_threads(job.thread_counts, time_steps, clock.elapsed_s)
    tried = tuple(
        StepTimeRecord(num_threads=count, spin_count=job.spin_count, step_s=max(step_s, 1e-9))
        for count, step_s in sorted(found.items())
    )
    best = plainest([*tried, *(msgspec.convert(way, StepTimeRecord) for way in job.earlier)])
    matmul = None
    if isinstance(workload, ChoosesMatmul) and job.matmul is None and best in tried:
        torch.set_num_threads(best.num_threads)
        previous = None if job.previous is None else convert_choice(job.previous, "the earlier choice")
        matmul = msgspec.convert(msgspec.to_builtins(workload.choose_matmul(previous)), MatmulRecord)
    return TrialsRecord(tried=tried, matmul=matmul)


KIND = MeasurementKind(name="choice", job=ChoiceJob, record=TrialsRecord, run=try_ways)
