"""Makes table cells for values with units, spreads and intervals, which several tables share."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from reports.document.blocks import Cell, Shown, TableColumn, numeric
from reports.statistics.intervals import Interval, LogSummary
from reports.text.formatting import MISSING, interval, percent

ALL_EQUAL = 1e-9
"""Coefficient of variation below which a grid's values count as all equal, since floating-point rounding explains
it."""


def sorted_cell(text: str, value: float | None, sub: str = "") -> Cell:
    """Return a table cell with the number to sort by, for a text that does not sort by itself because its unit
    varies."""
    return Cell(text=text, sort="" if value is None or math.isnan(value) else f"{value:.9g}", sub=sub)


def by_value(form: Callable[[float], str]) -> Callable[[float], Cell]:
    """Return a function that makes a sortable cell from a number, for a column whose texts do not sort by
    themselves."""
    return lambda value: sorted_cell(form(value), value)


def with_spread(form: Callable[[float], str]) -> Callable[[LogSummary], Cell]:
    """Return a function that makes a cell from a summary of values: the geometric mean, and below it the coefficient
    of variation."""
    return lambda found: Cell(text=form(found.geometric_mean), sub=spread_text(found))


def spread_text(found: LogSummary) -> str:
    """Return the spread of summarised values in words: 'CV 4.3 %', 'all equal'; '' for a single value."""
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
    """Return two table columns for a quantity, its geometric means and their intervals, or a narrow column of
    both."""
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
