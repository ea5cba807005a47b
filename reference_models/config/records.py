"""Conversion of a benchmark definition's TOML tables to typed records.

A record is a frozen dataclass. The types of its fields state the allowed values: definitions are checked against
them, and the schema of definitions is made from them. An error names the field, the value given and the values
allowed.
"""

import math
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Annotated, Any, TypeVar, get_type_hints

import msgspec
from msgspec import Meta, inspect

from reference_models.process.errors import ConfigError, did_you_mean

T = TypeVar("T")
MAX_COUNT = 2**53
"""Largest whole number that a benchmark definition may give as a count, 2^53: a double represents all whole numbers
up to it."""
Count = Annotated[int, Meta(ge=0, le=MAX_COUNT)]
PositiveCount = Annotated[int, Meta(ge=1, le=MAX_COUNT)]
Amount = Annotated[float, Meta(ge=0)]
Counts = Annotated[tuple[PositiveCount, ...], Meta(min_length=1)]


def read_section(name: str, table: Mapping[str, Any], kind: type[T]) -> T:
    """Read one TOML table of a definition as a record. Raises ConfigError that names the field as `name.key`."""
    hints = get_type_hints(kind, include_extras=True)
    for key in table:
        if key not in hints:
            raise ConfigError(f"unknown key {name}.{key}.{did_you_mean(key, list(hints))}")
    values = {}
    for entry in fields(kind):  # type: ignore[arg-type]
        if entry.name in table:
            try:
                values[entry.name] = msgspec.convert(table[entry.name], hints[entry.name])
            except msgspec.ValidationError:
                raise refuse(name, table, entry.name, hints[entry.name]) from None
            if not _is_finite(values[entry.name]):  # TOML allows nan and inf, records do not
                raise refuse(name, table, entry.name, "finite numbers")
        elif entry.default is MISSING and entry.default_factory is MISSING:
            raise refuse(name, table, entry.name, hints[entry.name])
    return kind(**values)


def _is_finite(value: object) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_is_finite, value))
    return not isinstance(value, float) or math.isfinite(value)


def refuse(name: str, table: Mapping[str, Any], key: str, expected: Any) -> ConfigError:
    """Return a ConfigError about the field `name.key`; `expected` is a type, or the allowed values in words."""
    value = table.get(key)
    allowed = () if isinstance(expected, str) else _alternatives(expected)
    options = [str(option) for kind in allowed if isinstance(kind, inspect.LiteralType) for option in kind.values]
    if options and isinstance(value, str):
        return ConfigError(f"{name}.{key} is {value!r}.{did_you_mean(value, options)}")
    words = expected if isinstance(expected, str) else " or ".join(_words(kind, value) for kind in allowed)
    if key not in table:
        return ConfigError(f"{name}.{key} is missing, expected {words}.")
    return ConfigError(f"{name}.{key} is {value!r}, expected {words}.")


def _alternatives(hint: Any) -> tuple[inspect.Type, ...]:
    """Return the types that a field's value may have, without None, which TOML cannot express."""
    kind = inspect.type_info(hint)
    while isinstance(kind, inspect.Metadata):
        kind = kind.type
    parts = kind.types if isinstance(kind, inspect.UnionType) else (kind,)
    return tuple(part for part in parts if not isinstance(part, inspect.NoneType))


def _words(kind: inspect.Type, value: object) -> str:
    if isinstance(kind, inspect.IntType):
        return "a whole number" + _bounds(kind, value)
    if isinstance(kind, inspect.FloatType):
        return "a number" + _bounds(kind, value)
    if isinstance(kind, inspect.BoolType):
        return "true or false"
    if isinstance(kind, inspect.LiteralType) and isinstance(kind.values[0], int):
        return f"{', '.join(map(str, kind.values[:-1]))} or {kind.values[-1]}"
    if isinstance(kind, inspect.VarTupleType):
        if isinstance(kind.item_type, inspect.StrType | inspect.DataclassType):
            return "a list of " + ("strings" if isinstance(kind.item_type, inspect.StrType) else "tables")
        sizes = [_size(item) for item in value] if isinstance(value, list | tuple) else []
        return "a list of whole numbers" + (_bounds(kind.item_type, max(sizes)) if sizes else "")
    return "a table" if isinstance(kind, inspect.DictType) else "a string"


def _bounds(kind: Any, value: object) -> str:
    """Return a number's allowed bounds in words; the limit of all counts, MAX_COUNT, is named only where the given
    value exceeds it."""
    low = "" if kind.ge is None else f" of at least {kind.ge}"
    low += "" if kind.gt is None else f" above {kind.gt}"
    is_said = kind.le is not None and (kind.le != MAX_COUNT or _size(value) > MAX_COUNT)
    return low + (f", at most {kind.le}" if is_said else "")


def _size(value: object) -> float:
    """Return a field's value, for comparison with a limit, if it is a number; else 0."""
    return value if isinstance(value, int | float) else 0
