"""Time candidates for computing a training step. A process times several thread counts with one spin count of
OpenMP's threads; each spin count has its own process.

Two candidates may be so close that a slightly different time would change the choice. Such candidates are timed again
in a second process, and the least time of each candidate counts. One process is not enough: its placement in memory,
or a load on the system meanwhile, may favour one candidate.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from harness.autotune.job import KIND, ChoiceJob, TrialsRecord, is_about_a_tie
from harness.launch.deadline import AT_ONCE
from harness.launch.process import Interpreter, explain_end, launch_worker
from harness.measure.job import write_job
from harness.system.software import make_spin_variables
from rules.records.codec import Damage, decode
from rules.records.run_set import TIE, MatmulRecord, StepTimeRecord
from rules.temporary_folder import temporary_folder

_HOPELESS = 1.4
"""Ratio of a step time to the best one: a thread count above this ratio is not timed with longer spinning of OpenMP's
threads."""
_CLOSE = TIE**2
"""Ratio of a step time to the best one: candidates up to this ratio are timed in a second process, since the
difference may be chance."""
_LONG_S = 0.25
"""Step time in seconds from which on near-equal candidates are not timed again: short disturbances average out within
long steps."""
Way = tuple[int, int | None]
"""Candidate for computing a step: number of threads, and GOMP_SPINCOUNT (None where the environment sets the
spinning)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """Settings shared by all processes that time one configuration's training step: its benchmark definition (TOML
    tables), dataset folder and Python interpreter."""

    tables: Mapping[str, Any]
    definition_path: Path
    data_dir: Path
    given: MatmulRecord | None
    """Kernels for matrix products given by the user; None where timing chooses them."""
    previous: MatmulRecord | None
    """Kernels for matrix products chosen earlier, which only clearly faster ones replace; None where there are
    none."""
    interpreter: Interpreter | None

    def run(self, thread_counts: Sequence[int], spin_count: int | None) -> TrialsRecord | str:
        """Time a training step with each thread count in one process; return the times, or the reason why the process
        failed."""
        most = max(thread_counts)
        with temporary_folder("choice") as folder:
            job = ChoiceJob(
                tables={**self.tables, "runtime": {**self.tables.get("runtime", {}), "threads": most}},
                definition_path=str(self.definition_path),
                data_dir=str(self.data_dir),
                seed=0,
                folder=str(folder),
                thread_counts=tuple(thread_counts),
                spin_count=spin_count,
                matmul=None if self.given is None else msgspec.to_builtins(self.given),
                previous=None if self.previous is None else msgspec.to_builtins(self.previous),
            )
            end = launch_worker(
                write_job(KIND, job),
                num_threads=most,
                variables=make_spin_variables(spin_count),
                interpreter=self.interpreter,
                timeout_s=AT_ONCE,
            )
            found = decode(folder / KIND.file, TrialsRecord)
        return explain_end(end)[0] if isinstance(found, Damage) else found


@dataclass(frozen=True, slots=True)
class TimedWays:
    """Least step time in seconds of each candidate (threads, spinning) that was tried, and the kernels for matrix
    products with which it was reached."""

    tried: tuple[StepTimeRecord, ...]
    matmuls: Mapping[Way, MatmulRecord]


def time_ways(trial: Candidate, thread_counts: Sequence[int], spin_counts: Sequence[int | None]) -> TimedWays | str:
    """Return the step time of each candidate (thread count, spin count). All thread counts are timed with the first
    spin count. The other spin counts are timed only with the thread counts above 1 that are near the best.

    Where a slightly different time would change the choice, near-equal candidates are timed in a second process. If
    the first process fails, the reason is returned in place of the times.
    """
    first = trial.run(thread_counts, spin_counts[0])
    if isinstance(first, str):
        return first
    records = {spin_counts[0]: [first]}
    least_s = min(way.step_s for way in first.tried)
    promising = [way.num_threads for way in first.tried if way.num_threads > 1 and way.step_s <= _HOPELESS * least_s]
    for spin_count in spin_counts[1:] if promising else ():
        more = trial.run(promising, spin_count)
        if not isinstance(more, str):
            records[spin_count] = [more]
    ways = _least(record for some in records.values() for record in some).tried
    least_s = min(way.step_s for way in ways)
    close: dict[int | None, list[int]] = {}
    for way in ways:
        if way.step_s <= _CLOSE * least_s:
            close.setdefault(way.spin_count, []).append(way.num_threads)
    is_open = least_s < _LONG_S and len(close) > 1 and is_about_a_tie([way.step_s for way in ways])
    for spin_count, counts in close.items() if is_open else ():
        again = trial.run(counts, spin_count)
        if not isinstance(again, str):
            records[spin_count].append(again)
    return _least(record for some in records.values() for record in some)


def _least(records: Iterable[TrialsRecord]) -> TimedWays:
    """Return the least step time of each candidate (threads, spinning) over the records of several processes."""
    least: dict[Way, StepTimeRecord] = {}
    matmuls: dict[Way, MatmulRecord] = {}
    for record in records:
        of_count = {matmul.num_threads: matmul for matmul in record.matmuls}
        for way in record.tried:
            key = way.num_threads, way.spin_count
            if key in least and least[key].step_s <= way.step_s:
                continue
            least[key] = way
            if way.num_threads in of_count:
                matmuls[key] = of_count[way.num_threads]
    return TimedWays(tuple(least.values()), matmuls)
