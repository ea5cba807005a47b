"""The answer of served configurations, in words."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from harness.extensions.serving.records import ServeProcess, ServeRecord
from reports.parts.cells import bounds_text
from reports.results.measured import value_step
from reports.results.result import Result
from reports.statistics.intervals import MIN_RUNS, LogSummary, log_summary, mean_of_known
from reports.text.formatting import duration, plural, printable, si

_NEAR = 0.03
"""Between LoadGen's rate and the long run's, where nothing need be said."""
_SCENARIOS = {"offline": "Offline", "single_stream": "SingleStream"}
_NO_BREAK = "\N{NO-BREAK SPACE}"


class ServedResult(NamedTuple):
    """A measurement of serving with its record."""

    result: Result
    record: ServeRecord

    @property
    def first(self) -> ServeProcess:
        """The process whose runs and curve are shown."""
        return self.record.processes[0]

    @property
    def summary(self) -> LogSummary | None:
        """The queries per second of the processes, on the log scale, as they are compared."""
        return log_summary(self.result.measured_values, step=value_step(self.result))

    @property
    def rate(self) -> float:
        """The geometric mean of the processes, in queries per second."""
        return summary.geometric_mean if (summary := self.summary) else self.result.measured_values[0]

    @property
    def of_modelled(self) -> float | None:
        """The mean share of what the virtual clock said; None where it found no rate."""
        found = (each.bounded_per_s / each.modelled_per_s for each in self.record.processes if each.modelled_per_s)
        return mean_of_known(found)

    def mean(self, member: str) -> float | None:
        """Return the arithmetic mean of the processes that have a value of `member`; None where none has."""
        return mean_of_known(getattr(each, member) for each in self.record.processes)


def served_answer(measured: Sequence[Result]) -> str:
    """Say what served configurations answer, the best first; empty where none of them was served.

    'rm1: 551 queries/s within 25.0 ms at p95, VALID (no interval: fewer than five processes)'.
    """
    found = served_among(measured)
    if not found:
        return ""
    best = max(found, key=lambda each: each.rate)
    label, rate = best.result.label, f"{rate_words(best)} queries/s".replace(" ", _NO_BREAK)
    words = f"{rate} {promise_words(best.record)}, {_verdict_words(best)} ({_interval_words(best.summary)})"
    if len(found) == 1:
        return f"{best.result.benchmark or label}: {words}"
    same = {(record.problem_sha256, each.benchmark) for each, record in found}
    of = f"{plural(len(found), 'served configuration')}"
    if len(same) > 1:
        return f"{of} that were asked different things; {label}: {words}"
    return f"{label} answers the most of {of}: {words}"


def promise_words(record: ServeRecord) -> str:
    """'within 25.0 ms at p95'; of a scenario without a limit its name."""
    if record.target_latency_s is None:
        return f"in {_SCENARIOS.get(record.scenario, printable(record.scenario))}"
    return f"within {duration(record.target_latency_s)} at p{record.percentile:g}"


def rate_words(served: ServedResult) -> str:
    """'551'; where a search left the rate open, 'between 1.54 k and 5.48 k', or 'at least 551'."""
    processes = served.record.processes
    if all(process.is_resolved for process in processes):
        return si(served.rate)
    low = min(process.bounded_per_s for process in processes)
    highs = [process.bounded_per_s * (process.width or math.inf) for process in processes]
    return f"at least {si(low)}" if max(highs) == math.inf else f"between {si(low)} and {si(max(highs))}"


def low_words(served: ServedResult) -> str:
    """'6.1 % below the long run'; empty where LoadGen's own rate is within 3 % of it, or nothing says so."""
    shares = [process.loadgen_share for process in served.record.processes]
    mean = mean_of_known(shares)
    if mean is None or abs(mean - 1) <= _NEAR:
        return ""
    return f"{abs(mean - 1):.1%} {'below' if mean < 1 else 'above'} the long run".replace("%", " %")


def doubts(served: ServedResult) -> list[str]:
    """What keeps VALID from standing alone: rates that were left open, and runs that were held up."""
    processes = served.record.processes
    found = []
    if num_open := sum(not process.is_resolved for process in processes):
        found.append(f"the rate was left open in {num_open} of {plural(len(processes), 'process', 'processes')}")
    runs = [run for process in processes for run in process.runs]
    if held_up := [run for run in runs if run.is_held_up]:
        longest_s = max(run.stall_s for run in held_up)
        found.append(f"{len(held_up)} of {plural(len(runs), 'run')} held up, up to {duration(longest_s)}")
    return found


def _verdict_words(served: ServedResult) -> str:
    processes = served.record.processes
    num_valid = sum(process.valid_run.is_valid for process in processes)
    of = f" in {num_valid} of {len(processes)} processes" if num_valid < len(processes) else ""
    return "; ".join([f"VALID{of}" if num_valid else "not VALID", *doubts(served)])


def served_among(measured: Sequence[Result]) -> list[ServedResult]:
    """Return those of the measurements that are of serving."""
    return [ServedResult(each, each.measured) for each in measured if isinstance(each.measured, ServeRecord)]


def _interval_words(summary: LogSummary | None) -> str:
    if summary is None or summary.interval is None:
        number = {5: "five"}.get(MIN_RUNS, str(MIN_RUNS))
        return f"no interval: fewer than {number} processes"
    return f"{summary.interval.confidence:.0%} interval {bounds_text(summary.interval, si)}"
