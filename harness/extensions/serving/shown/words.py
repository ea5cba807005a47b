"""Say the result of a measurement of serving in words, for titles and summaries."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from harness.extensions.serving.records import ASKED_VALID, ServeProcess, ServeRecord
from reports.parts.cells import bounds_text
from reports.results.measured import value_step
from reports.results.result import Result
from reports.statistics.distributions import student_quantile
from reports.statistics.intervals import MIN_RUNS, NOMINAL, LogSummary, log_summary, mean_of_known
from reports.text.formatting import duration, percent, plural, printable, si

_FIVE = {5: "five"}.get(MIN_RUNS, str(MIN_RUNS))
_DEVIATIONS = 2 * 1.96
"""Width, in standard deviations, of a range that covers 95 % of a normal distribution."""
_WIDEST = 10.0
"""Maximum half-width of an interval, in logarithms of the rate of queries; wider intervals are cut to it."""
_SCENARIOS = {"offline": "Offline", "single_stream": "SingleStream"}
_NO_BREAK = "\N{NO-BREAK SPACE}"


class ServedResult(NamedTuple):
    """Result of a measurement of serving, with the content of its extra/serve.json."""

    result: Result
    record: ServeRecord

    @property
    def first(self) -> ServeProcess:
        """Return the measurement's first process. Its runs of LoadGen and its simulated curve are the ones that are
        shown."""
        return self.record.processes[0]

    @property
    def summary(self) -> LogSummary | None:
        """Return the summary of the processes' queries per second on the log scale, on which they are compared."""
        return log_summary(self.result.measured_values, step=value_step(self.result))

    @property
    def rate(self) -> float:
        """Return the geometric mean of the processes' VALID rates, in queries per second."""
        return summary.geometric_mean if (summary := self.summary) else self.result.measured_values[0]

    @property
    def of_modelled(self) -> float | None:
        """Return the measured rate divided by the rate that LoadGen should find according to the simulation, as the
        mean over processes.

        None where the simulation found no rate.
        """
        return mean_of_known(
            each.queries_per_s / (each.modelled_per_s * (each.loadgen_share or 1.0))
            for each in self.record.processes
            if each.modelled_per_s
        )

    @property
    def spread(self) -> tuple[float, float] | None:
        """Return the ends of the simulated spread (95 % interval of the rate) in queries per second, geometric means
        over processes; None where they are unknown."""
        low, high = map(self.geometric_mean, ("spread_low_per_s", "spread_high_per_s"))
        return None if low is None or high is None else (low, high)

    @property
    def steady_per_s(self) -> float | None:
        """Return the simulated steady-state rate in queries per second, the geometric mean over processes; None where
        not all of them have it."""
        return self.geometric_mean("steady_state_per_s")

    def geometric_mean(self, member: str) -> float | None:
        """Return the geometric mean of a positive member of the processes' records; None where not all processes have
        it."""
        values = [getattr(each, member) for each in self.record.processes]
        if None in values:
            return None
        return math.exp(math.fsum(map(math.log, values)) / len(values))

    def mean(self, member: str) -> float | None:
        """Return the arithmetic mean of `member` over the processes whose records have a value of it; None where none
        has."""
        return mean_of_known(getattr(each, member) for each in self.record.processes)


def served_answer(measured: Sequence[Result]) -> str:
    """Return the rate of the fastest served configuration as a title; empty without measurements of serving.

    An example: 'rm1: 559 queries/s VALID within 25.0 ms at p95 (one run of one process; 605 was INVALID)'.
    `rest_words` adds what the title leaves out.
    """
    found = served_among(measured)
    if not found:
        return ""
    best = max(found, key=lambda each: each.rate)
    label, words = best.result.label, _title_words(best)
    if len(found) == 1:
        return f"{best.result.benchmark or label}: {words}"
    same = {(record.problem_sha256, each.benchmark) for each, record in found}
    of = f"{plural(len(found), 'served configuration')}"
    if len(same) > 1:
        return f"{of} with different limits, queries or benchmarks; {label}: {words}"
    return f"{label} answers the most of {of}: {words}"


def _title_words(served: ServedResult) -> str:
    """Return words of a title: the VALID rate, with the numbers of processes and runs. If the lowest INVALID rate is
    far above the VALID rate, the words state it, too."""
    processes = served.record.processes
    is_open = not all(process.is_resolved for process in processes)
    rate = min(process.queries_per_s for process in processes) if is_open else served.rate
    num_valid = sum(process.valid_run.is_valid for process in processes)
    of = f" in {num_valid} of {len(processes)} processes" if 0 < num_valid < len(processes) else ""
    invalid = [process.queries_per_s * process.width for process in processes if process.width is not None]
    least = "at least " if is_open and num_valid and not invalid else ""
    words = f"{least}{si(rate)} queries/s {'' if num_valid else 'not '}VALID{of}".replace(" ", _NO_BREAK)
    summary, alone = served.summary, "one process" if len(processes) == 1 else f"{len(processes)} processes"
    has_interval = summary is not None and summary.interval is not None and not is_open  # a rate left open has none
    own = [_interval_words(served) if has_interval else alone]
    if not all(process.is_repeated for process in processes):
        own = [f"one run of {'one process' if len(processes) == 1 else 'a process'}", *own[not has_interval :]]
    if is_open:
        own.append(f"{si(min(invalid))} was INVALID" if invalid else _held_up_words(served))
    if served.record.judged_as not in (None, ASKED_VALID):
        own.append(f"{served.record.judged_as}, by an earlier version")
    return f"{words} {promise_words(served.record)} ({'; '.join(own)})"


def _held_up_words(served: ServedResult) -> str:
    """Return words on rates above the VALID one that were INVALID only while the service stood still: '743 and more
    were INVALID while held up'."""
    rates = {
        process.queries_per_s * run.asked_per_s / process.valid_run.asked_per_s
        for process in served.record.processes
        for run in process.runs
        if run.is_held_up and not run.is_valid and run.asked_per_s > process.valid_run.asked_per_s
    }
    if not rates:
        return "no higher rate was INVALID"
    least = si(min(rates))
    return f"{least} {'was' if len(rates) == 1 else 'and more were'} INVALID while held up"


def rest_words(served: ServedResult) -> str:
    """Return the facts on the rate of a served configuration that a page's title leaves out: its latency, and how
    wide a confidence interval of the rate would be if five processes were measured."""
    record = served.record
    latency_s = max(process.latency_s for process in record.processes)
    words = [f"p{record.percentile:g} latency {duration(latency_s)}", _interval_words(served, "of the rate ")]
    if served.steady_per_s is not None:
        words.append(
            f"in steady state, the latency limit would allow {si(served.steady_per_s)} queries/s (simulated)"
        )
    return "; ".join([*words, *doubts(served)])


def promise_words(record: ServeRecord) -> str:
    """Return the latency limit in words: 'within 25.0 ms at p95'; for a scenario without a limit, its name."""
    if record.target_latency_s is None:
        return f"in {_SCENARIOS.get(record.scenario, printable(record.scenario))}"
    return f"within {duration(record.target_latency_s)} at p{record.percentile:g}"


def rate_words(served: ServedResult) -> str:
    """Return the VALID rate in words: '551'; where a search left it open, 'between 1.54 k and 5.48 k' or 'at least
    551'."""
    processes = served.record.processes
    if all(process.is_resolved for process in processes):
        return si(served.rate)
    low = min(process.queries_per_s for process in processes)
    highs = [process.queries_per_s * (process.width or math.inf) for process in processes]
    return f"at least {si(low)}" if max(highs) == math.inf else f"between {si(low)} and {si(max(highs))}"


def spread_words(served: ServedResult) -> str:
    """Return the ends of the simulated spread of the rate, in queries per second: '950 – 1.07 k'; empty where they
    are unknown."""
    return "" if (spread := served.spread) is None else f"{si(spread[0])} – {si(spread[1])}"


def five_words(served: ServedResult) -> str:
    """Return words on the confidence interval that five measured processes would have: 'five processes would have an
    interval of ± 3.1 % (simulated)'.

    The interval is computed as for measured processes, by Student's t on logarithms of rates. The standard deviation
    is that of one process's rate, which is simulated. Empty if it is unknown.
    """
    if (spread := served.spread) is None:
        return ""
    deviation = (math.log(spread[1]) - math.log(spread[0])) / _DEVIATIONS
    width = float(student_quantile(MIN_RUNS - 1, (1 + NOMINAL) / 2)) * deviation / math.sqrt(MIN_RUNS)
    half_width = f"{math.expm1(min(abs(width), _WIDEST)) * 100:.2g} %"
    return f"{_FIVE} processes would have an interval of ± {half_width} (simulated)"


def doubts(served: ServedResult) -> list[str]:
    """Return the caveats of a VALID rate: processes whose search found no INVALID rate above it, processes that made
    only one run, and runs in which the service stood still."""
    processes = served.record.processes
    found = []
    if num_open := sum(not process.is_resolved for process in processes):
        found.append(
            f"the rate was left open in {num_open} of {plural(len(processes), 'process', 'processes')}: no rate near "
            "the VALID one was INVALID in a run that nothing held up, so that higher rates may be VALID, too"
        )
    if num_single := sum(not process.is_repeated for process in processes):
        found.append(f"VALID in a single run in {num_single} of {plural(len(processes), 'process', 'processes')}")
    runs = [run for process in processes for run in process.runs]
    if held_up := [run for run in runs if run.is_held_up]:
        longest_s = max(run.stall_s for run in held_up)
        found.append(
            f"{len(held_up)} of {plural(len(runs), 'run')} held up, up to {duration(longest_s)}: calls, or the "
            "issuing of queries, stood still, and such a run is made again when it is INVALID"
        )
    return found


def served_among(measured: Sequence[Result]) -> list[ServedResult]:
    """Return the measurements of serving among `measured`, each with the content of its extra/serve.json."""
    return [ServedResult(each, each.measured) for each in measured if isinstance(each.measured, ServeRecord)]


def _interval_words(served: ServedResult, of: str = "") -> str:
    summary = served.summary
    if summary is None or summary.interval is None:
        return five_words(served) or f"no interval: fewer than {_FIVE} processes"
    return f"{percent(summary.interval.confidence, 0)} interval {of}{bounds_text(summary.interval, si)} queries/s"
