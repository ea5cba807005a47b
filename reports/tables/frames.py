"""Makes data frames of records and of a document's configurations, runs, evaluations and findings; CSV and Parquet
files.

This module imports pandas, so only code that makes frames imports it.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd

from reports.render.csv import inert
from reports.results.result import Result
from reports.tables.columns import FrameColumn, columns_of
from reports.tables.records import (
    DETAIL_TABLES,
    EvaluationRow,
    FindingRow,
    MeasurementRow,
    ReportDocument,
    RunRow,
    SetRow,
    detail_rows,
)
from reports.text.atomic_write import replace_file

CONFIGURATION = columns_of(SetRow)[0]
SET_COLUMNS = columns_of(SetRow)
RUN_COLUMNS = (CONFIGURATION, *columns_of(RunRow))
EVALUATION_COLUMNS = (CONFIGURATION, *columns_of(EvaluationRow))
FINDING_COLUMNS = (CONFIGURATION, *columns_of(FindingRow))


def make_frame(columns: Sequence[FrameColumn], rows: Iterable[Sequence[Any]]) -> pd.DataFrame:
    """Return a data frame of rows with a value or None per column; the dtypes are those that `columns` define, also
    if there are no rows."""
    cells = list(zip(*rows, strict=True)) or [()] * len(columns)
    return pd.DataFrame(
        {
            column.name: pd.Series(map(_encodable, values), dtype=_dtype(column))
            for column, values in zip(columns, cells, strict=True)
        }
    )


def record_frame(record: type[msgspec.Struct], rows: Iterable[msgspec.Struct]) -> pd.DataFrame:
    """Return a data frame of records, with a column per field of the type `record`. If a record is of a subtype, the
    subtype's further fields have no column."""
    columns = columns_of(record)
    return make_frame(columns, [[getattr(row, column.name) for column in columns] for row in rows])


def frame_csv(frame: pd.DataFrame) -> str:
    """Return a data frame as CSV at full precision; text that a spreadsheet would run as a formula gets a leading
    apostrophe."""
    texts = frame.select_dtypes(["string", "category"])
    safe = {str(name): texts[name].astype(object).map(inert, na_action="ignore") for name in texts}
    return frame.assign(**safe).to_csv(index=False, lineterminator="\n")


def _encodable(value: Any) -> Any:
    """Return text with invalid Unicode escaped, which the bytes of a file name may cause; any other value
    unchanged."""
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value


def _dtype(column: FrameColumn) -> Any:
    """Return the pandas dtype of a column. A missing value is pd.NA in Int64, boolean and string columns, NaN in
    float64 and category columns, and NaT in columns of times."""
    return pd.CategoricalDtype(list(column.values)) if column.dtype == "category" else column.dtype


def sets_frame(document: ReportDocument) -> pd.DataFrame:
    """Return a data frame with one row per configuration and the columns SET_COLUMNS."""
    return record_frame(SetRow, document.configurations)


def runs_frame(document: ReportDocument) -> pd.DataFrame:
    """Return a data frame with one row per run and the columns RUN_COLUMNS; runs with a result come first."""
    return _labelled_frame(RUN_COLUMNS, ((row.configuration, row.runs) for row in document.configurations))


def evaluations_frame(document: ReportDocument) -> pd.DataFrame:
    """Return a data frame with one row per evaluation of model quality and the columns EVALUATION_COLUMNS."""
    return make_frame(EVALUATION_COLUMNS, _evaluations(document))


def measurements_frame(document: ReportDocument) -> pd.DataFrame:
    """Return a data frame with one row per process of a measurement, such as throughput (but not of runs that train
    to a target quality)."""
    return record_frame(MeasurementRow, document.measurements)


def detail_frames(document: ReportDocument) -> dict[str, pd.DataFrame]:
    """Return a dict from a table's name to its data frame, for the tables that each hold a single kind of
    measurement, such as throughput; a frame has one row per process."""
    return {name: record_frame(DETAIL_TABLES[name].row, rows) for name, rows in detail_rows(document).items()}


def document_csv(document: ReportDocument) -> str:
    """Return a document's runs as CSV. If it has only measurements, return those: all of one kind with all quantities
    of the kind's own table, if there is one, and others as rows of the table `measurements`."""
    if document.configurations or not document.measurements:
        return frame_csv(runs_frame(document))
    whole = (frame for frame in detail_frames(document).values() if len(frame) == len(document.measurements))
    return frame_csv(next(whole, measurements_frame(document)))


def findings_frame(sets: Sequence[Result]) -> pd.DataFrame:
    """Return a data frame of rule findings, errors first, with one row for each place at which a set or a log breaks
    a rule, and the columns FINDING_COLUMNS."""
    return _labelled_frame(FINDING_COLUMNS, ((result.label, result.verdict.findings) for result in sets))


def _labelled_frame(columns: Sequence[FrameColumn], parts: Iterable[tuple[str, Iterable[object]]]) -> pd.DataFrame:
    """Return a data frame of several configurations' rows, whose first column is the configuration's label."""
    names = [column.name for column in columns[1:]]
    return make_frame(
        columns, ([label, *(getattr(row, name) for name in names)] for label, rows in parts for row in rows)
    )


def _evaluations(document: ReportDocument) -> Iterator[tuple[Any, ...]]:
    for configuration in document.configurations:
        for run in configuration.runs:
            lists = run.evaluations
            quantities = zip(lists.epoch_num, lists.samples_count, lists.elapsed_s, lists.quality, strict=True)
            for number, quantity in enumerate(quantities, start=1):
                yield (configuration.configuration, run.run, number, *quantity, run.path)


def write_parquet(document: ReportDocument, folder: Path) -> tuple[Path, ...]:
    """Write configurations.parquet, runs.parquet and evaluations.parquet into `folder`, which is created. If there
    are measurements, also write measurements.parquet and a file for each kind of measurement that has a table of its
    own.

    Each table has its own file, since a run and an evaluation, for example, have different columns. If a link has the
    name of a file, the link itself is replaced. Returns the files' paths.
    """
    frames = {
        "configurations": sets_frame(document),
        "runs": runs_frame(document),
        "evaluations": evaluations_frame(document),
    }
    if document.measurements:
        frames["measurements"] = measurements_frame(document)
    frames |= {name: frame for name, frame in detail_frames(document).items() if len(frame)}
    folder.mkdir(exist_ok=True)
    paths = []
    for name, frame in frames.items():
        path = folder / f"{name}.parquet"
        with replace_file(path, ".parquet") as draft:
            frame.to_parquet(draft, index=False)
        paths.append(path)
    return tuple(paths)
