"""Makes the section that compares the machines on a page: speed, price, and the drift between repeated sets on each
machine."""

import math
from collections.abc import Sequence

from reports.charts.runs import Quantity, Strip, StripDot, strips_figure
from reports.comparison.drift_tolerance import (
    MIN_SETS,
    REFERENCE_DRIFT,
    Repeats,
    far_words,
    measure_drift_tolerance,
    spans_ms,
)
from reports.comparison.repeats import find_repeats
from reports.comparison.standing import describe_machine
from reports.document.blocks import Block, Cell, Chart, Prose, Shown, Table, numeric, table_of
from reports.document.page import PageSection
from reports.facts.noise import ASSUMED_DRIFT
from reports.parts.cost import cost_text, cost_to_train
from reports.results.find import brief_name
from reports.results.reference_systems import system_of, variation_of
from reports.results.result import Result
from reports.statistics.intervals import log_summary
from reports.statistics.ratios import fraction_from
from reports.text.formatting import duration, percent, plural, printable, rough_duration, si
from reports.text.formatting import utc as moment_words

HEADING = "Machines"
_SPEED = "throughput"
_WORDS = {
    "dot-counted": "a run or process",
    "mean": "geometric mean",
    "band": "possible drift between machines and hours",
}


def machines_section(group: Sequence[Result], repeats: Repeats, id_: str) -> PageSection | None:
    """Return the section that compares the machines on which this harness made a group's result sets. The best
    machine comes first: the one with the least cost to train if prices are known, else the fastest. None if there is
    a single machine, or if the speed of a set is unknown."""
    rates = [_rate(result) for result in group]
    if len({machine_of(result) for result in group}) < 2 or None in rates:
        return None
    ordered = sorted(group, key=_order)
    figure = strips_figure(
        [_strip(result, _tolerance(ordered)) for result in ordered],
        Quantity(name="samples/s"),
        _WORDS,
        id_=f"{id_}-machines-chart",
        title="Samples/s by machine",
        description=f"One row per set. {_lead(ordered)}",
    )
    own = {machine_of(result): _repeats_words(result, repeats) for result in ordered}
    blocks: tuple[Block, ...] = (
        Prose(text=_lead(ordered)),
        _table(ordered, f"{id_}-machines-table"),
        Chart(figure=figure),
        *(Prose(text=f"{printable(name, 60)}: {words}", kind="note") for name, words in own.items()),
    )
    return PageSection(id=f"{id_}-machines", heading=HEADING, name="Machines", blocks=blocks)


def machine_of(result: Result) -> str:
    """Return the name of the machine that a set ran on. If the set belongs to a reference system (another system
    whose results are compared with), return the reference system's name. Otherwise return the system's name with the
    processor's vendor, family and model.

    Return '' for a set that this harness did not make.
    """
    if result.asked is None:
        return ""
    if (system := system_of(result)) is not None:
        return system
    processor = result.asked.environment.get("processor")
    return result.asked.system.name + (f" ({processor})" if processor else "")


def _rate(result: Result) -> float | None:
    """Return the geometric mean of samples/s over a set's runs; None where it is unknown, and for sets of other
    harnesses."""
    if result.asked is None:
        return None
    found = log_summary([sample.values.get(_SPEED) for sample in result.samples])
    return None if found is None or found.num_values < result.num_converged else found.geometric_mean


def _cost(result: Result) -> float | None:
    return cost_to_train(result.score.olympic_mean_s, result.price_per_hour)


def _order(result: Result) -> tuple[float, float]:
    cost = _cost(result)
    return (math.inf if cost is None else cost, -(_rate(result) or 0.0))


def _lead(ordered: Sequence[Result]) -> str:
    """Return a sentence on the order of the machines in the table, and on the size below which a difference in speed
    may be drift alone."""
    by = "cost to train (prices as given)" if _cost(ordered[0]) is not None else "speed"
    spans = spans_ms(ordered)
    when = ""
    if spans:
        first, last = min(span[0] for span in spans), max(span[1] for span in spans)
        when = f" Measured from {moment_words(first)} to {moment_words(last)}, within {_span_words(last - first)}."
    far = percent(_tolerance(ordered), 0)
    return f"Machines are ordered by {by}; differences in speed below {far} may be drift alone.{when}"


def _tolerance(group: Sequence[Result]) -> float:
    """Return the relative drift of speed, as a fraction, that is assumed between sets measured on two machines."""
    return REFERENCE_DRIFT if any(system_of(result) for result in group) else ASSUMED_DRIFT


def _span_words(span_ms: float) -> str:
    return rough_duration(span_ms / 1e3)


def _strip(result: Result, tolerance: float) -> Strip:
    rate, machine = _rate(result) or 1.0, printable(machine_of(result), 60)
    dots = (
        StripDot(label=sample.label, value=value)
        for sample in result.samples
        if (value := sample.values.get(_SPEED)) is not None
    )
    return Strip(
        name=machine if machine == brief_name(result) else f"{machine}: {brief_name(result)}",
        hue=0,
        dots=tuple(dots),
        mean=rate,
        mean_label=si(rate),
        low=rate / (1 + tolerance),
        high=rate * (1 + tolerance),
    )


def _table(ordered: Sequence[Result], id_: str) -> Table:
    columns: list[Shown[Result]] = [
        ("Machine", lambda result: Cell(text=printable(machine_of(result), 60), sub=describe_machine(result))),
        ("Set", brief_name),
        (numeric("Samples/s", "geometric mean; CV"), _rate_cell),
    ]
    if ordered[0].is_logged:
        columns.append((numeric("Time to train", "Olympic mean"), _time_cell))
    if any(result.price_per_hour is not None for result in ordered):
        columns.append((numeric("Price per hour", "given"), _price_cell))
        columns.append((numeric("Cost to train", "derived"), lambda result: cost_text(_cost(result))))
    caption = "Sets of several machines, measured at different times"
    return table_of(ordered, columns, id_=id_, caption=caption)


def _rate_cell(result: Result) -> Cell:
    rate, variation = _rate(result), variation_of(result)
    return Cell(text=si(rate or 0.0), sub="" if variation is None else f"CV {percent(variation)}")


def _time_cell(result: Result) -> str | None:
    return None if result.score.olympic_mean_s is None else duration(result.score.olympic_mean_s)


def _price_cell(result: Result) -> str | None:
    return None if result.price_per_hour is None else f"{result.price_per_hour:g} {result.currency}".rstrip()


def _repeats_words(result: Result, repeats: Repeats) -> str:
    """Return in words how much the speed drifts between repeated sets on the machine of `result`. Repeated sets of
    any configuration on this machine count. If fewer than MIN_SETS sets were repeated, the words give the drift that
    is assumed instead."""
    machine, named = machine_of(result), []
    for group in repeats.groups:
        if machine_of(group[0]) == machine and len(group) >= MIN_SETS:
            named.append(group)
    tolerance = measure_drift_tolerance(Repeats(groups=tuple(named)), (_SPEED,))
    if not tolerance.sets:
        return (
            f"fewer than {MIN_SETS} sets of this machine repeat one configuration, so its drift is unknown: "
            f"{percent(_tolerance([result]), 0)} is assumed."
        )
    spans = spans_ms([each for group in named for each in group])
    made = f" made within {_span_words(max(b for _, b in spans) - min(a for a, _ in spans))}" if spans else ""
    width = far_words(fraction_from(tolerance.width(_SPEED)))
    return (
        f"{plural(len(tolerance.sets), 'set')}{made} repeat one another: two more are less than {width} apart "
        "in 98 of 100 cases, on this machine and at such hours alone."
    )


def repeats_of(group: Sequence[Result], known: Repeats) -> Repeats:
    """Return the result sets that repeat a configuration of the group: the sets `known` or, if there are none and the
    group has no logs, the sets in the group's folders."""
    return known if known.groups or group[0].is_logged else find_repeats(group)
