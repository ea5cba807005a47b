"""Presents measurements of throughput: mean over processes, interval, variation, and traffic between ranks."""

from reports.document.blocks import numeric
from reports.facts.traffic import traffic_of, traffic_words
from reports.kinds.details import Details, Lines
from reports.parts.cells import bounds_text
from reports.results.measured import compared_values, rate_summary
from reports.results.result import Result
from reports.statistics.intervals import IF_INDEPENDENT
from reports.text.formatting import count, percent, printable, throughput, throughput_text


def throughput_facts(measured: Result) -> Lines:
    """Return named values of a throughput measurement: geometric mean over processes with interval and CV, and the
    first process's traffic between ranks."""
    facts = []
    if (summary := rate_summary(measured)) is not None:
        options = measured.asked.options if measured.asked else {}
        each = "".join(f", {value} {name.removeprefix('num_')} each" for name, value in options.items())
        mean = f"{throughput_text(summary.geometric_mean)} of {summary.num_values} processes{each}"
        facts.append(("geometric mean", mean))
        if (bounds := summary.interval) is not None:
            both = f"{bounds_text(bounds, throughput_text)} ({bounds.method}, {IF_INDEPENDENT})"
            facts.append((f"{percent(bounds.confidence, 0)} interval", both))
        facts.append(("varies by", f"{percent(summary.coefficient_of_variation)} between processes"))
    return facts + [("exchange", traffic_words(traffic)) for traffic in traffic_of(measured)[:1]]


DETAILS = Details(
    lines=throughput_facts,
    columns=(
        (numeric("CV", "over processes"), rate_summary, lambda rate: percent(rate.coefficient_of_variation)),
        (numeric("Processes"), "num_runs", count),
        (numeric("Slowest", "samples/s"), lambda found: min(compared_values(found)), throughput),
        (numeric("Fastest", "samples/s"), lambda found: max(compared_values(found)), throughput),
        ("Data", lambda found: printable(getattr(found.measured, "data_kind", None) or "dataset", 40)),
    ),
)
