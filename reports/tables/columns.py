"""Derives table columns from record types; `reports.tables.frames` makes data frames of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec
from msgspec import inspect

_DTYPES: Mapping[Any, str] = {
    inspect.IntType: "Int64",
    inspect.FloatType: "float64",
    inspect.StrType: "string",
    inspect.BoolType: "boolean",
    inspect.LiteralType: "category",
    inspect.DateTimeType: "datetime64[ms, UTC]",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class FrameColumn:
    """Column of a data frame. `values` are the possible values of a category; `low` and `high` are limits of numbers
    read from files."""

    name: str
    dtype: str
    unit: str
    meaning: str
    values: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None


@cache
def columns_of(record: type[msgspec.Struct]) -> tuple[FrameColumn, ...]:
    """Return the data-frame columns of a record type: one per field, in order. A column has the name that the field
    has in files. A field that holds a list has no column."""
    info = inspect.type_info(record)
    assert isinstance(info, inspect.StructType)
    columns = (_column(field.encode_name, field.type) for field in info.fields)
    return tuple(column for column in columns if column is not None)


def _column(name: str, wrapped: inspect.Type) -> FrameColumn | None:
    notes: dict[str, Any] = {}
    inner = [wrapped]
    leaf: Any = wrapped
    while inner:
        leaf = inner.pop()
        if isinstance(leaf, inspect.Metadata):
            notes |= leaf.extra_json_schema or {}
            inner.append(leaf.type)
        elif isinstance(leaf, inspect.UnionType):
            inner += [part for part in leaf.types if not isinstance(part, inspect.NoneType)]
    if isinstance(leaf, inspect.VarTupleType):
        return None
    return FrameColumn(
        name=name,
        dtype=_DTYPES[type(leaf)],
        unit=notes.get("unit", ""),
        meaning=notes.get("description", ""),
        values=getattr(leaf, "values", ()),
        low=getattr(leaf, "ge", None),
        high=getattr(leaf, "le", None),
    )


def shared_members(source: object, record: type[msgspec.Struct]) -> dict[str, Any]:
    """Return, by name, the values of those attributes of `source` that the record type has as fields."""
    return {name: getattr(source, name) for name in record.__struct_fields__ if hasattr(source, name)}
