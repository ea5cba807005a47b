"""The columns that records have, and data frames made of records."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec
import pandas as pd
from msgspec import inspect

from reports.render.csv import inert

_DTYPES: Mapping[Any, str] = {
    inspect.IntType: "Int64", inspect.FloatType: "float64", inspect.StrType: "string", inspect.BoolType: "boolean",
    inspect.LiteralType: "category", inspect.DateTimeType: "datetime64[ms, UTC]",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Column:
    """One column. `values` are all that a category has; `low` and `high` are the limits of what is read back."""

    name: str
    dtype: str
    unit: str
    meaning: str
    values: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None

    @property
    def pandas_dtype(self) -> Any:
        """Missing is pd.NA in Int64, boolean and string, NaN in float64 and category, NaT in a moment."""
        return pd.CategoricalDtype(list(self.values)) if self.dtype == "category" else self.dtype


@cache
def columns_of(record: type[msgspec.Struct]) -> tuple[Column, ...]:
    """The columns of a record's fields, in their order."""
    info = inspect.type_info(record)
    assert isinstance(info, inspect.StructType)
    return tuple(_column(field.name, field.type) for field in info.fields)


def _column(name: str, wrapped: inspect.Type) -> Column:
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
    return Column(
        name=name,
        dtype=_DTYPES[type(leaf)],
        unit=notes.get("unit", ""),
        meaning=notes.get("description", ""),
        values=getattr(leaf, "values", ()),
        low=getattr(leaf, "ge", None),
        high=getattr(leaf, "le", None),
    )


def shared_members(source: object, record: type[msgspec.Struct]) -> dict[str, Any]:
    """What `source` says of the members of a record, by name: those that both have."""
    return {name: getattr(source, name) for name in record.__struct_fields__ if hasattr(source, name)}


def make_frame(columns: Sequence[Column], rows: Iterable[Sequence[Any]]) -> pd.DataFrame:
    """A frame of rows that have a value, or None, per column; dtypes are the columns', also without rows."""
    cells = list(zip(*rows, strict=True)) or [()] * len(columns)
    return pd.DataFrame(
        {
            column.name: pd.Series(map(_encodable, values), dtype=column.pandas_dtype)
            for column, values in zip(columns, cells, strict=True)
        }
    )


def record_frame(record: type[msgspec.Struct], rows: Iterable[msgspec.Struct]) -> pd.DataFrame:
    """A frame of records, which may have more fields than `record`, whose columns it has."""
    columns = columns_of(record)
    return make_frame(columns, [[getattr(row, column.name) for column in columns] for row in rows])


def frame_csv(frame: pd.DataFrame) -> str:
    """A frame as CSV at full precision. Text that a spreadsheet would take for a formula gets an apostrophe first."""
    texts = frame.select_dtypes(["string", "category"])
    safe = {str(name): texts[name].astype(object).map(inert, na_action="ignore") for name in texts}
    return frame.assign(**safe).to_csv(index=False, lineterminator="\n")


def _encodable(value: Any) -> Any:
    """Text with what is no Unicode, such as the bytes of a strange file name, escaped; all else as it is."""
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value
