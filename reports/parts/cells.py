"""Makes table cells for values with units, spreads and intervals, which several tables share."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from reports.document.blocks import Cell, Shown, TableColumn, numeric
from reports.statistics.intervals import Interval, LogSummary
from reports.text.formatting import MISSING, interval, percent

ALL_EQUAL = 1e-9
"""Coefficient of variation below which values count as all equal, since so small a variation is explained by
floating-point rounding."""


def sorted_cell(text: str, value: float | None, sub: str = "") -> Cell:
    """Return a table cell that shows `text` and is sorted by the number `value`. Use it in columns whose texts have
    different units, because those cannot be sorted by their text. Six digits of the number are kept. An unknown value
    sorts last."""
    return Cell(text=text, sort="" if value is None or math.isnan(value) else f"{value:.6g}", sub=sub)


def by_value(form: Callable[[float], str]) -> Callable[[float], Cell]:
    """Return the function that makes a table cell from a number: the cell shows the number as formatted by `form`,
    and is sorted by the number itself."""
    return lambda value: sorted_cell(form(value), value)


def with_spread(form: Callable[[float], str]) -> Callable[[LogSummary], Cell]:
    """Return a function that makes a cell from a summary of values: the geometric mean, and below it the coefficient
    of variation."""
    return lambda found: Cell(text=form(found.geometric_mean), sub=spread_text(found))


def spread_text(found: LogSummary) -> str:
    """Return in words how much the summarised values vary: 'CV 4.3 %' (coefficient of variation), 'all equal'; '' for
    a single value."""
    spread = found.coefficient_of_variation
    return "" if spread is None else "all equal" if spread < ALL_EQUAL else f"CV {percent(spread)}"


def interval_of(form: Callable[[float], str]) -> Callable[[LogSummary], str]:
    """Return a function that formats the interval of a geometric mean, each end by `form`."""
    return lambda found: bounds_text(found.interval, form)


def mean_columns(
    head: TableColumn,
    member: str,
    form: Callable[[float], str],
    found: Sequence[LogSummary | None],
    *,
    interval: tuple[str, str],
    is_narrow: bool,
) -> list[Shown[Any]]:
    """Return the table columns of a quantity: one with its geometric means and one with their intervals, or, if
    `is_narrow`, a single column with each interval below its mean.

    `member` names the attribute of a row's item that holds the summary (mean and interval). `interval` is the heading
    of the intervals: their name and unit.
    """
    name, unit = interval
    if not is_narrow:
        below = numeric(f"{name}, {unit}", "of that mean")
        return [(head, f"{member}.geometric_mean", form), (below, member, interval_of(form))]
    has_any = any(each is not None and each.interval is not None for each in found)
    head = replace(head, help=f"{head.help}, {name}") if has_any else head
    return [
        (head, member, lambda each: Cell(text=form(each.geometric_mean), sub=bounds_text(each.interval, form, "")))
    ]


def ends_of(bounds: Interval | None) -> tuple[float | None, float | None]:
    """Return both ends of a confidence interval; None for both where there is no interval."""
    return (bounds.low, bounds.high) if bounds else (None, None)


def bounds_text(bounds: Interval | None, show: Callable[[float], str], missing: str = MISSING) -> str:
    """Return both ends of a confidence interval as `show` formats them; `missing` where there is no interval."""
    return interval(show(bounds.low), show(bounds.high)) if bounds else missing
