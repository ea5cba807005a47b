"""Strip chart for a terminal: values on one logarithmic line of text, one of them marked."""

import math
from collections.abc import Callable, Sequence

WIDTH = 41


def draw_strip(value: float, others: Sequence[float], words: Callable[[float], str]) -> str:
    """Draw `value` as 'o' among `others` as '|', from the least of all to the most, as '0.8---|--o---|71.6'.

    All values are above 0. The text has no blank, so that no terminal breaks it.
    """
    low, high = min(value, *others, value), max(value, *others, value)
    cells = ["-"] * WIDTH
    for other in others:
        cells[_place_of(other, low, high)] = "|"
    cells[_place_of(value, low, high)] = "o"
    return f"{words(low)}{''.join(cells)}{words(high)}"


def _place_of(value: float, low: float, high: float) -> int:
    """Return the cell of a value from `low` to `high`; the middle cell where both are equal."""
    if not low < high:
        return WIDTH // 2
    return round((WIDTH - 1) * math.log(value / low) / math.log(high / low))
