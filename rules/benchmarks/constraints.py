"""Define the constraint that a division (Closed or Open) places on the value of one mllog key: free, one value or
several, bounds, or the value of another key."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rules.errors import DefinitionError

_TOLERANCE = 1e-9
"""Relative tolerance of bounds that are proportional to another key's value: the official rules allow it for rounding
(closed_dlrmv4.yaml)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Constraint:
    """Constraint on the value of an mllog key: free, one exact value, one of several, bounds, bounds proportional to
    another key's value, or equal to another key's value.

    `other` names the other key. If `at` is given, `min` and `max` are the bounds for the case that the other key's
    value is `at`; for other values they grow in proportion. If `at` is not given, the value must equal the other
    key's value. `resolve` turns both kinds into constraints without another key.
    """

    free: bool = False
    value: Any = None
    one_of: tuple[Any, ...] = ()
    """Values that the constraint allows; empty where the constraint is not a list of values."""
    min: float | None = None
    max: float | None = None
    other: str | None = None
    at: float | None = None

    def resolve(self, value_of: Callable[[str], Any]) -> "Constraint":
        """Return a constraint on one key with the name of another key in it replaced by that key's value,
        `value_of(other)`. A constraint that names no other key is returned unchanged.

        Return a constraint that allows everything if the other key has no value, or if bounds are proportional to a
        value that is not a number above 0 and below 1e18. Another rule reports such missing and wrong values.
        """
        if self.other is None:
            return self
        given = value_of(self.other)
        if self.at is None:
            return Constraint(free=True) if given is None else Constraint(value=given)
        if isinstance(given, bool) or not isinstance(given, int | float) or not 0 < given < 1e18:
            return Constraint(free=True)
        low, high = ((None if number is None else number * given / self.at) for number in (self.min, self.max))
        return Constraint(
            min=None if low is None else low * (1 - _TOLERANCE), max=None if high is None else high * (1 + _TOLERANCE)
        )

    def allows(self, value: object) -> bool:
        """Return whether `value` satisfies the constraint; a boolean never counts as a number."""
        if self.free:
            return value is not None
        if self.min is not None or self.max is not None:
            if isinstance(value, bool) or not isinstance(value, int | float):
                return False
            return (self.min is None or value >= self.min) and (self.max is None or value <= self.max)
        return any(
            isinstance(value, bool) == isinstance(allowed, bool) and bool(value == allowed)
            for allowed in self.one_of or (self.value,)
        )

    def __str__(self) -> str:
        if self.free:
            return "any value"
        if self.other is not None and self.at is None:
            return f"the value of {self.other}"
        if self.min is not None or self.max is not None:
            scaled = "" if self.at is None else f" at {self.other} {self.at:g}, in proportion to it"
            return f"between {self.min} and {self.max}{scaled}"
        if self.one_of:
            return " or ".join(map(repr, self.one_of))
        return repr(self.value)


def parse_constraint(path: Path, where: str, rule: Any) -> Constraint:
    """Parse one entry of a definition's section [closed] or [open] as a constraint. Raises DefinitionError that names
    the file and the field."""
    if rule == "free":
        return Constraint(free=True)
    if isinstance(rule, Mapping):
        return _parse_table(path, where, rule)
    if isinstance(rule, list):
        raise DefinitionError(
            f"{path}: {where}: a list is not a constraint; give one value, bounds or {{one_of = […]}}."
        )
    return Constraint(value=rule)


def _parse_table(path: Path, where: str, rule: Mapping[str, Any]) -> Constraint:
    if set(rule) == {"one_of"} and _are_values(rule["one_of"]):
        return Constraint(one_of=tuple(rule["one_of"]))
    bounds = set(rule) & {"min", "max"}
    is_known = set(rule) == {"same_as"} or (bounds and set(rule) - bounds in (set(), {"scales_with", "at"}))
    numbers = {key: rule[key] for key in ("min", "max", "at") if key in rule}
    other = rule.get("same_as", rule.get("scales_with"))
    is_sound = all(map(_is_number, numbers.values())) and numbers.get("at", 1) > 0 and isinstance(other, str | None)
    if not (is_known and is_sound):
        raise DefinitionError(
            f"{path}: {where}: expected 'free', a value, {{min = …, max = …}}, "
            "{one_of = [VALUE, …]}, {min = …, max = …, scales_with = KEY, at = NUMBER}, or {same_as = KEY}."
        )
    return Constraint(**numbers, other=other)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _are_values(values: object) -> bool:
    """Return whether `values` is a list of distinct values of one type."""
    if not isinstance(values, list) or not values:
        return False
    are_alike = all(map(_is_number, values)) or all(isinstance(value, str) for value in values)
    return are_alike and len(set(values)) == len(values)
