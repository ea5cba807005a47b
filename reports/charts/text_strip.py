"""Draws a strip chart for a terminal: values on one logarithmic line of text, with one value marked."""

import math
from collections.abc import Callable, Sequence

WIDTH = 41


def draw_strip(value: float, others: Sequence[float], words: Callable[[float], str]) -> str:
    """Draw numbers on a line of text from the smallest to the largest, `value` as 'o' and each of `others` as '|':
    '0.8---|--o---|71.6'. The function `words` formats both ends.

    All numbers must be above 0. The text has no space, so that no terminal breaks the line.
    """
    low, high = min(value, *others, value), max(value, *others, value)
    cells = ["-"] * WIDTH
    for other in others:
        cells[_place_of(other, low, high)] = "|"
    cells[_place_of(value, low, high)] = "o"
    return f"{words(low)}{''.join(cells)}{words(high)}"


def _place_of(value: float, low: float, high: float) -> int:
    """Return the character position of a value on a logarithmic line of text from `low` to `high`; the middle where
    these are equal."""
    if not low < high:
        return WIDTH // 2
    return round((WIDTH - 1) * math.log(value / low) / math.log(high / low))
