"""The answer of served configurations, in words."""

from collections.abc import Sequence

from reports.parts.cells import bounds_text
from reports.results.result import Result
from reports.statistics.intervals import MIN_RUNS, log_summary
from reports.text.formatting import duration, plural, printable, si
from rules.records.measured.serve import LoadGenRun, ServeProcess, ServeRecord

_SCENARIOS = {"offline": "Offline", "single_stream": "SingleStream"}


_NO_BREAK = "\N{NO-BREAK SPACE}"


Found = tuple[Result, ServeRecord]


def served_answer(measured: Sequence[Result]) -> str:
    """Say what served configurations answer, the best first; empty where none of them was served.

    'rm1: 551 queries/s within 25.0 ms at p95, VALID (no interval: fewer than five processes)'.
    """
    found = served_among(measured)
    if not found:
        return ""
    best = max(found, key=lambda each: mean_rate(each[0]))
    words = f"{_mean_text(best[0])} {promise_words(best[1])}, {_verdict_words(best[1])} ({_interval_words(best[0])})"
    if len(found) == 1:
        return f"{best[0].benchmark or best[0].label}: {words}"
    same = {(record.problem_sha256, each.benchmark) for each, record in found}
    of = f"{plural(len(found), 'served configuration')}"
    if len(same) > 1:
        return f"{of} that were asked different things; {best[0].label}: {words}"
    return f"{best[0].label} answers the most of {of}: {words}"


def promise_words(record: ServeRecord) -> str:
    """'within 25.0 ms at p95'; of a scenario without a limit its name."""
    if record.target_latency_s is None:
        return f"in {_SCENARIOS.get(record.scenario, printable(record.scenario))}"
    return f"within {duration(record.target_latency_s)} at p{record.percentile:g}"


def best_run(process: ServeProcess) -> LoadGenRun:
    """The run whose rate is the process's answer."""
    valid = [run for run in process.runs if run.is_valid]
    return max(valid or process.runs, key=lambda run: run.completed_per_s)


def _verdict_words(record: ServeRecord) -> str:
    num_valid = sum(best_run(process).is_valid for process in record.processes)
    of = f" in {num_valid} of {len(record.processes)} processes" if num_valid < len(record.processes) else ""
    return f"VALID{of}" if num_valid else "not VALID"


def served_among(measured: Sequence[Result]) -> list[Found]:
    return [(each, each.measured) for each in measured if isinstance(each.measured, ServeRecord)]


def mean_rate(measured: Result) -> float:
    """Over the processes: geometric, as it is compared."""
    summary = log_summary(measured.measured_values, step=0.0)
    return summary.geometric_mean if summary else measured.measured_values[0]


def _mean_text(measured: Result) -> str:
    return f"{si(mean_rate(measured))} queries/s".replace(" ", _NO_BREAK)


def _interval_words(measured: Result) -> str:
    summary = log_summary(measured.measured_values, step=0.0)
    if summary is None or summary.interval is None:
        number = {5: "five"}.get(MIN_RUNS, str(MIN_RUNS))
        return f"no interval: fewer than {number} processes"
    return f"{summary.interval.confidence:.0%} interval {bounds_text(summary.interval, si)}"
