"""The tables as Parquet files, typed by their columns."""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from reports.tables.columns import CONFIGURATION_COLUMNS, EVALUATION_COLUMNS, RUN_COLUMNS, Kind
from reports.tables.tables import Tables
from rules.errors import InputError

_TYPES = {"text": pa.string(), "count": pa.int64(), "number": pa.float64()}


def write_parquet(tables: Tables, folder: Path) -> tuple[Path, ...]:
    """Write configurations.parquet, runs.parquet and evaluations.parquet into `folder`, made where it is missing.

    One file per table, because their rows are of different things. Whole numbers are int64; InputError names one
    that does not fit.
    """
    made = [
        ("configurations", _typed(tables.configurations, CONFIGURATION_COLUMNS, "configurations")),
        ("runs", _typed(tables.runs, RUN_COLUMNS, "runs")),
        ("evaluations", _typed(tables.evaluations, EVALUATION_COLUMNS, "evaluations")),
    ]
    folder.mkdir(exist_ok=True)
    paths = []
    for name, table in made:
        path, draft = folder / f"{name}.parquet", folder / f".{name}.parquet.partial"
        try:
            pq.write_table(table, draft)
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
        paths.append(path)
    return tuple(paths)


def _typed(frame: pd.DataFrame, columns: Mapping[str, Kind], table: str) -> pa.Table:
    arrays = []
    for name, kind in columns.items():
        values = [None if value is None or value != value else value for value in frame[name]]
        if kind == "number":
            values = [None if value is None else float(value) for value in values]
        try:
            arrays.append(pa.array(values, _TYPES[kind]))
        except (OverflowError, pa.ArrowInvalid):
            raise InputError(
                f"{table}.{name} holds a whole number beyond 64 bits, which Parquet cannot hold. Use --format json."
            ) from None
    return pa.table(arrays, names=list(columns))
