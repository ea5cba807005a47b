"""List the facts of one measurement of serving as lines of a summary: the rate, the simulation, LoadGen's runs."""

from harness.extensions.serving.records import ASKED_VALID, ServeProcess, ServeRecord
from harness.extensions.serving.shown.words import (
    ServedResult,
    doubts,
    five_words,
    rate_words,
    served_among,
    spread_words,
)
from reports.parts.cells import bounds_text
from reports.parts.load import load_words
from reports.results.result import Result
from reports.statistics.intervals import IF_INDEPENDENT, MIN_RUNS
from reports.text.formatting import duration, num_bytes, percent, plural, printable, si
from rules.records.metrics import METRICS

NAMES = {"server": "latency-bounded", "offline": "offline", "single_stream": "single stream"}
"""Words for the measured rate of queries, by LoadGen's scenario."""


def rate(value: float) -> str:
    """Return a rate of queries in words: '1.23 k queries/s'."""
    return f"{si(value)} queries/s"


def limit_words(record: ServeRecord, latency_s: float) -> str:
    """Return a latency with its limit: 'p95 23.1 ms of 25 ms'; without a limit 'p95 1.2 ms'."""
    words = f"p{record.percentile:g} {duration(latency_s)}"
    return words if record.target_latency_s is None else f"{words} of {duration(record.target_latency_s)}"


def serve_facts(measured: Result) -> list[tuple[str, str]]:
    """Return the facts of a measurement of serving as pairs of name and text, the measured rate first; rates are
    geometric means over processes."""
    (served,) = served_among([measured])
    record, summary = served.record, served.summary
    processes = record.processes
    latency_s = max(process.latency_s for process in processes)
    items = f"{si(served.rate * record.mean_items)} items/s"
    parts = [f"{rate_words(served)} queries/s", items, _judged(served), limit_words(record, latency_s)]
    facts = [(NAMES[record.scenario], ", ".join(parts))]
    if record.judged_as not in (None, ASKED_VALID):
        facts.append(("older file", f"of an earlier version: {record.judged_as}. Measure again to compare"))
    if spread := spread_words(served):
        words = "half of all runs of this length are VALID, over random arrivals (95 %, simulated; one process)"
        facts.append(("spread", f"{spread} queries/s: {words}"))
    if (steady := _steady_state(served)) is not None:
        facts.append(("steady state", steady))
    facts.append(("simulation", _said(served)))
    if noisy := load_words(measured.loads):
        facts.append(("measured", f"{noisy}; 'simulate' times calls alone, at another moment, and may differ"))
    if found := doubts(served):
        facts.append(("doubt", "; ".join(found)))
    if summary is not None and (bounds := summary.interval) is not None:
        facts.append(
            (
                f"{percent(bounds.confidence, 0)} interval",
                f"{bounds_text(bounds, rate)} ({bounds.method}, {IF_INDEPENDENT})",
            )
        )
    else:
        words = f"none, and no verdicts: needs {MIN_RUNS} processes, has {len(processes)}"
        facts.append(("interval", "; ".join(filter(None, (words, five_words(served))))))
    if (beside := beside_words(served)) is not None:
        facts.append(("co-location", beside))
    facts += [
        ("queries", f"{printable(record.queries, 40)}, {record.mean_items:.4g} items on average"),
        ("served by", setup_words(record)),
    ]
    if (quality := quality_words(processes[0])) is not None:
        facts.append(("quality", quality))
    overhead_s = max(process.overhead_s for process in processes)
    loaded = [process.loaded_factor for process in processes if process.loaded_factor is not None]
    busy = f", and makes calls {max(loaded):.2f} times as long under full load" if loaded else ""
    added = f"{printable(record.loadgen_version, 40)}; adds {duration(overhead_s)} to a query{busy}, measured"
    facts.append(("LoadGen", added))
    if (study := measured.path.parent / "serve_0" / "study.json").is_file():
        facts.append(("study", f"{printable(study)}: the simulation's table, which 'report' shows"))
    if any(process.latency_s < 5 * overhead_s for process in processes):
        facts.append(("", "LoadGen's overhead is more than a fifth of the latency: the queries are very short."))
    return facts


def _judged(served: ServedResult) -> str:
    processes = served.record.processes
    num_valid = sum(process.valid_run.is_valid for process in processes)
    judged = "VALID by LoadGen" if num_valid else "not VALID by LoadGen"
    return judged + (f" in {num_valid or len(processes)} of {len(processes)} processes" if len(processes) > 1 else "")


ENDS = {
    "left_open": "no rate near the VALID one was INVALID in a run that nothing held up, so that the VALID rate may "
    "be far below the highest one",
    "invalid_below": "a run at a lower rate was INVALID, which LoadGen's rule for short runs does not explain",
    "none_late": "no query was late, though some are late in the simulation",
}
"""Reasons why LoadGen's runs do not confirm the simulated steady state, by the code in the record."""


def _steady_state(served: ServedResult) -> str | None:
    """Return the simulated steady-state rate in words, with the ratio of the VALID rate to it, or the reason why it
    is not known. None if no rate was simulated."""
    processes = served.record.processes
    share, queries = served.mean("loadgen_share"), processes[0].valid_run.num_queries
    if share is None:
        return None
    if (steady_per_s := served.steady_per_s) is not None:
        return (
            f"would allow {rate(steady_per_s)} (simulated): the VALID rate over {share:.3g}, the share of the "
            "steady-state rate that LoadGen's rule and arrivals allow in runs of "
            f"{plural(queries, 'query', 'queries')}"
        )
    ended = [end for process in processes if (end := process.steady_state_missing) is not None]
    if not ended:
        return None
    whys = "; ".join(ENDS[end] for end in dict.fromkeys(ended))
    return f"not known for {len(ended)} of {plural(len(processes), 'process', 'processes')}: {whys}"


def _said(served: ServedResult) -> str:
    if (mean := served.mean("modelled_per_s")) is None:
        return "found no rate"
    words, which = f"allows {rate(mean)} in steady state", "the simulated rate"
    share = served.mean("loadgen_share")
    if share is not None:
        words += f", {rate(mean * share)} by LoadGen's rule"
        which += " by this rule"
    return f"{words} (simulated); the measured rate is {percent(served.of_modelled)} of {which}"


def beside_words(served: ServedResult) -> str | None:
    """Return words on the throughput of all processes relative to one process; None where there is only one
    process."""
    record, times, alone = served.record, served.mean("times_alone"), served.mean("alone_per_s")
    if times is None or alone is None:
        return None
    words = f"{record.num_copies} processes answer {times:.2f} times the queries of one ({rate(alone)} alone)"
    return f"{words}; oversubscribed: more threads than cores" if record.is_oversubscribed else words


def setup_words(record: ServeRecord) -> str:
    """Return the setup that answered the queries, in words: processes, workers, threads, batches, precisions and
    weights."""
    parts = [
        f"{plural(record.num_copies, 'process', 'processes')} of {plural(record.num_workers, 'worker')} and "
        f"{plural(record.num_threads, 'thread')}",
        "" if record.batch_items is None else _batch_words(record.batch_items, record.batch_wait_s),
        f"{printable(record.precision, 20)}, tables {printable(record.table_precision, 20)}",
        num_bytes(record.model_bytes),
        f"{record.weights} weights",
    ]
    return "; ".join(part for part in parts if part)


def _batch_words(items: int, wait_s: float) -> str:
    words = f"up to {plural(items, 'item')} a call"
    return f"{words}, waiting {duration(wait_s)}" if wait_s else words


def quality_words(process: ServeProcess) -> str | None:
    """Return the quality of the served model, and its ratio to fp32, in words; None where it is not known."""
    quality = process.quality
    if quality is None:
        return None
    parts = []
    for metric in METRICS.values():
        if (value := getattr(quality, metric.member, None)) is not None:
            share = getattr(quality, f"{metric.member}_ratio")
            of_fp32 = "" if share is None else f", {share:.5f} of fp32"
            of_class = "" if quality.mlperf_class is None else f" (MLPerf class {quality.mlperf_class})"
            parts.append(f"{metric.capital} {value:.5f}{of_fp32}{of_class}")
    return "; ".join((*parts, f"normalised entropy {quality.normalised_entropy:.5f}"))
