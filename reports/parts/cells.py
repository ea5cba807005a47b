"""Cells that several tables share."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from reports.document.blocks import Cell, Shown, TableColumn, numeric
from reports.statistics.intervals import Interval, LogSummary
from reports.text.formatting import MISSING, interval, percent

ALL_EQUAL = 1e-9
"""Coefficient of variation below which values on a grid count as equal, apart from floating-point rounding."""


def sorted_cell(text: str, value: float | None, sub: str = "") -> Cell:
    """Return a cell whose text does not sort by itself, since its unit varies, with the number to sort by."""
    return Cell(text=text, sort="" if value is None or math.isnan(value) else f"{value:.9g}", sub=sub)


def by_value(form: Callable[[float], str]) -> Callable[[float], Cell]:
    """Return a cell format for a column whose texts do not sort by themselves."""
    return lambda value: sorted_cell(form(value), value)


def with_spread(form: Callable[[float], str]) -> Callable[[LogSummary], Cell]:
    """Return a cell format for geometric means, with the coefficient of variation below each mean."""
    return lambda found: Cell(text=form(found.geometric_mean), sub=spread_text(found))


def spread_text(found: LogSummary) -> str:
    """Return the spread of values in words: 'CV 4.3 %', 'all equal'; '' for a single value."""
    spread = found.coefficient_of_variation
    return "" if spread is None else "all equal" if spread < ALL_EQUAL else f"CV {percent(spread)}"


def interval_of(form: Callable[[float], str]) -> Callable[[LogSummary], str]:
    """Return a cell format for the intervals of geometric means."""
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
    """Return a column of a member's geometric means and one of the intervals, or a narrow column of both."""
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
    """Return both ends of an interval."""
    return (bounds.low, bounds.high) if bounds else (None, None)


def bounds_text(bounds: Interval | None, show: Callable[[float], str], missing: str = MISSING) -> str:
    """Return both ends of an interval as `show` prints them; `missing` where there is no interval."""
    return interval(show(bounds.low), show(bounds.high)) if bounds else missing
