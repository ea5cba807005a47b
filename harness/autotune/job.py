"""Time candidates (threads, kernels) for a configuration's training step in one fresh process, outside all measured
time; nothing is scored.

The parent (`harness.autotune.tuning`) starts one such process for each spin count of OpenMP's threads, since a
process cannot change its spin count. The process first times all thread counts with torch.mm for every matrix
product, and finds those near the best. It then chooses kernels for matrix products for each of these thread counts.
Finally it times these thread counts alternately, each with its own kernels.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from harness.config.synthetic import hold_in_memory
from harness.measure.clock import Clock
from harness.measure.kinds import Job, Kind, OnEvent
from harness.measure.throughput import train_steps
from reference_models.fused.choice import ChoosesMatmul, MatmulChoice, convert_choice
from reference_models.process.world import World
from rules.records.measure import Measurement
from rules.records.run_set import TIE, MatmulRecord, StepTimeRecord

_MIN_ROUNDS = 2
"""Minimum number of rounds in which thread counts are timed; they are made even when the time budget is used up."""
_ROUNDS = 6
"""Usual number of rounds in which thread counts are timed."""
_MOST_ROUNDS = 16
"""Maximum number of rounds in which thread counts are timed, made if a slightly different step time would change the
choice."""
_ABOUT = 0.04
_LOOK_S, _MAX_LOOKS = 0.5, 4
_ROUND_S = 0.08
"""Seconds of one round: consecutive training steps with one thread count."""
_BUDGET_S = 4.0
"""Seconds of all rounds together. Large models exceed it, since at least two rounds of one step each are made."""
_HOPELESS = 1.6
"""Ratio of a thread count's step time to the least step time so far. Above it, smaller thread counts are not
tried."""
_SLOW = 1.4
"""Ratio of a thread count's step time to the least step time so far. Above it, the thread count is not timed further,
and no kernels are chosen for it."""
_HELD_STEPS = 64
"""Number of batches of synthetic data held in memory while thread counts are timed."""

StepTimer = Callable[[int, int], float]
"""Function of (threads, steps) that runs so many consecutive training steps on so many threads and returns the
seconds per step."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChoiceJob(Job):
    """Job that times a training step by thread count in one process, with one spin count of OpenMP's threads."""

    thread_counts: tuple[int, ...]
    spin_count: int | None
    previous: dict[str, Any] | None
    """Kernels for matrix products chosen earlier, which only clearly faster ones replace; None where there are
    none."""


class TrialsRecord(Measurement, frozen=True, kw_only=True):
    """Seconds per training step of the candidates (thread counts) that one process timed."""

    tried: tuple[StepTimeRecord, ...]
    matmuls: tuple[MatmulRecord, ...]
    """Kernels for matrix products chosen for each thread count near the best; empty where kernels are not chosen."""


def fewest_changes(tried: Iterable[StepTimeRecord]) -> StepTimeRecord:
    """Return the candidate with the fewest threads, then the shortest spinning, among those whose step time is within
    5 % (`TIE`) of the fastest.

    Within 5 % a gain from more threads is not certain, while fewer threads are disturbed less, and leave cores free
    to read data, to run other processes and to keep the clock speed high.
    """
    ways = list(tried)
    least_s = min(way.step_s for way in ways)
    fast = [way for way in ways if way.step_s <= least_s * TIE]
    return min(fast, key=lambda way: (way.num_threads, way.spin_count or 0))


def is_about_a_tie(seconds: Sequence[float]) -> bool:
    """Return whether a small change of a step time would make or end a tie: whether any step time is close to `TIE`
    times the least one."""
    return any(abs(step_s / min(seconds) / TIE - 1) < _ABOUT for step_s in seconds)


def time_threads(
    thread_counts: Sequence[int],
    time_steps: StepTimer,
    clock_s: Callable[[], float],
    choose_products: Callable[[int], None] | None = None,
) -> Mapping[int, float]:
    """Return the least step time in seconds for each thread count that was timed.

    The largest thread count is timed first, then smaller ones until one is much slower than the best. For each thread
    count near the best, `choose_products` chooses kernels for matrix products, and later steps with this thread count
    use these kernels. The thread counts near the best are then timed alternately. More rounds are timed if a small
    change of a step time would change the choice.
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
    if choose_products is not None:
        for count in near:
            choose_products(count)
            time_steps(count, 1)
            least_s[count] = time_steps(count, 1)
    began_s = clock_s()
    for finished in range(_MOST_ROUNDS):
        if finished >= _MIN_ROUNDS and clock_s() - began_s > _BUDGET_S:
            break
        if finished >= _ROUNDS and not is_about_a_tie([least_s[count] for count in near]):
            break
        for count in near:
            if least_s[count] < _ROUND_S:
                time_steps(count, 1)  # the threads of another count were in its place
            in_a_row = max(1, min(_HELD_STEPS // 2, round(_ROUND_S / max(least_s[count], 1e-6))))
            least_s[count] = min(least_s[count], time_steps(count, in_a_row))
    return least_s


def try_ways(job: ChoiceJob, world: World, on_event: OnEvent) -> TrialsRecord:
    """Build the workload, choose kernels for matrix products for each promising thread count, and time steps that use
    them; return their times."""
    import torch

    config = hold_in_memory(job.parse()[1], _HELD_STEPS)
    workload = config.implementation.load(job.spec(config), world)
    workload.build()
    clock = Clock(workload.synchronize)
    previous = None if job.previous is None else convert_choice(job.previous, "the earlier choice")
    chooser = workload if isinstance(workload, ChoosesMatmul) and job.matmul is None else None
    chosen: dict[int, MatmulChoice] = {}

    def choose_products(num_threads: int) -> None:
        assert chooser is not None
        torch.set_num_threads(num_threads)
        chosen[num_threads] = chooser.choose_matmul(previous)

    def time_steps(num_threads: int, num_steps: int) -> float:
        torch.set_num_threads(num_threads)
        if chooser is not None and num_threads in chosen:
            chooser.use_matmul(chosen[num_threads])
        start_s = clock.elapsed_s()
        train_steps(workload.train, num_steps)
        return (clock.elapsed_s() - start_s) / num_steps

    found = time_threads(job.thread_counts, time_steps, clock.elapsed_s, None if chooser is None else choose_products)
    tried = tuple(
        StepTimeRecord(num_threads=count, spin_count=job.spin_count, step_s=max(step_s, 1e-9))
        for count, step_s in sorted(found.items())
    )
    matmuls = tuple(
        msgspec.convert(msgspec.to_builtins(choice), MatmulRecord) for _, choice in sorted(chosen.items())
    )
    return TrialsRecord(tried=tried, matmuls=matmuls)


KIND = Kind(name="choice", job=ChoiceJob, record=TrialsRecord, run=try_ways)
