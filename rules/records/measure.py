"""What a kind of measurement measures, so that reports can show and compare it without knowing the kind."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True, slots=True)
class Column:
    """One column of a table of repetitions: a member, its title, and its unit (None for a name or a number)."""

    member: str
    title: str
    unit: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Measure:
    """The quantity that is compared. On a "ratio" scale logarithms are compared, on a "difference" scale values."""

    title: str
    value: str
    """The member of one repetition that holds it."""
    unit: str
    scale: Literal["ratio", "difference"]
    direction: Literal["higher", "lower"]
    """Which one is better."""
    columns: tuple[Column, ...]
