"""Cells that several tables share."""

import math
from collections.abc import Callable

from reports.document.blocks import Cell
from reports.statistics.intervals import Interval
from reports.text.formatting import (
    MISSING,
    interval,
)


def sorted_cell(text: str, value: float | None, kind: str = "", sub: str = "") -> Cell:
    """A number whose text does not sort by itself (its unit varies), with the value that sorts it."""
    return Cell(text=text, sort="" if value is None or math.isnan(value) else f"{value:.9g}", kind=kind, sub=sub)


def bounds_text(bounds: Interval | None, show: Callable[[float], str], missing: str = MISSING) -> str:
    """Both ends as `show` prints them."""
    return interval(show(bounds.low), show(bounds.high)) if bounds else missing
