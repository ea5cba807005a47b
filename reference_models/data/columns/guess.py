"""Guess what the columns of a file are from its first rows; `init --from-columns` writes each with its reason."""

from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import compute, csv, parquet

from reference_models.data.columns.convert import NULLS
from reference_models.data.columns.files import is_parquet, read_header
from reference_models.data.prepared.lines import TextSource
from reference_models.process.errors import ConfigError, DatasetError, did_you_mean

HEAD_BYTES = 4 << 20
HEAD_ROWS = 1 << 16
_DELIMITERS = (",", "\t", ";", "|")
_LABELS = ("label", "click", "clicked", "is_click", "target", "y", "conversion", "converted", "purchase", "install")
_RATINGS = ("rating", "stars", "score")
_TIMES = ("time", "timestamp", "date", "datetime", "hour", "day", "ts", "event_time")
_IDS = ("id", "user", "item", "movie", "ad", "site", "app", "device", "category", "code", "zip", "type", "class")
_FEW, _MANY = 50, 1000


@dataclass(slots=True)
class Guess:
    """[data] of a definition, and why: by key of its parameters, and by position in `dense` and `sparse`."""

    data: dict[str, Any]
    num_rows: int
    """Rows of the file: counted of Parquet, of text estimated from its size."""
    num_read: int
    """Rows that were looked at."""
    reasons: dict[tuple[str, int | None], str] = field(default_factory=dict)

    @property
    def is_all(self) -> bool:
        """Return whether every row was looked at."""
        return self.num_read == self.num_rows


def guess_columns(path: Path, name: str, label: str | None = None) -> Guess:
    """Guess [data] of a definition `name` from the first rows of a file; `label` names that column if it is given.

    Raises DatasetError for a file that is empty, cannot be read or has no label, ConfigError where `label` is no
    column.
    """
    parameters: dict[str, Any] = {}
    try:
        head, num_rows, left_out = _read_parquet(path) if is_parquet(path) else _read_text(path, parameters)
    except pa.ArrowException as error:
        raise DatasetError(f"{path}: cannot be read: {str(error).splitlines()[0]:.200}") from None
    if not head.num_rows:
        raise DatasetError(f"{path}: has a header and no rows. Give a file with one sample per line.")
    names = head.column_names
    if repeated := [name for name in names if names.count(name) > 1]:
        raise DatasetError(f"{path}: has several columns {repeated[0]!r:.80}. Rename all but one.")
    guess = Guess({"kind": "columns", "name": name, "parameters": parameters}, num_rows, head.num_rows)
    _guess_label(path, head, label, guess)
    others = [name for name in names if name != parameters["label"]]
    _guess_time(head.select(others), guess)
    dense: list[dict[str, Any]] = []
    sparse: list[dict[str, Any]] = []
    for column in others:
        values = head[column].drop_null()
        if column == parameters.get("time") or _is_useless(values, head.num_rows):
            left_out.append(column)
        elif _is_category(column, values):
            sparse.append(_guess_category(column, values, guess, len(sparse)))
        else:
            dense.append(_guess_number(column, values, guess, len(dense)))
    if not sparse:
        raise DatasetError(f"{path}: no column looks like a category; a model of embedding tables needs one.")
    if left_out:
        shown = ", ".join(map(ascii, left_out[:20])) + (", …" if len(left_out) > 20 else "")
        guess.reasons["sparse", None] = f"left out: {shown} (the time, constant, nested, or other values in all rows)"
    parameters |= {"dense": dense, "sparse": sparse}
    return guess


def _read_parquet(path: Path) -> tuple[pa.Table, int, list[str]]:
    with parquet.ParquetFile(path, pre_buffer=False) as file:
        nested = [entry.name for entry in file.schema_arrow if pa.types.is_nested(entry.type)]
        flat = [entry for entry in file.schema_arrow if entry.name not in nested]
        batches = file.iter_batches(batch_size=HEAD_ROWS, columns=[entry.name for entry in flat], use_threads=False)
        head = pa.Table.from_batches([*islice(batches, 1)], pa.schema(flat))
        rows = file.metadata.num_rows
    for place, entry in enumerate(head.schema):
        if pa.types.is_dictionary(entry.type):
            head = head.set_column(place, entry.name, head.column(place).cast(entry.type.value_type))
    return head, rows, nested


def _read_text(path: Path, parameters: dict[str, Any]) -> tuple[pa.Table, int, list[str]]:
    delimiter = max(_DELIMITERS, key=lambda mark: len(read_header(path, mark)))
    if delimiter != ",":
        parameters["delimiter"] = delimiter
    with TextSource(path).opened() as text:
        head = text.read(HEAD_BYTES)
        is_whole = not text.read(1)
    if not is_whole:
        head = head[: head.rfind(b"\n") + 1]
    table = csv.read_csv(
        pa.BufferReader(head),
        csv.ReadOptions(use_threads=False, block_size=HEAD_BYTES),
        csv.ParseOptions(delimiter=delimiter, newlines_in_values=True, invalid_row_handler=lambda row: "skip"),
        csv.ConvertOptions(null_values=[*NULLS], strings_can_be_null=True, check_utf8=False),
    )
    factor = 1.0 if is_whole else path.stat().st_size / len(head)
    return table, round(table.num_rows * factor), []


def _guess_label(path: Path, head: pa.Table, given: str | None, guess: Guess) -> None:
    names = {name.lower(): name for name in reversed(head.column_names)}
    if given is not None and given not in head.column_names:
        raise ConfigError(f"{path}: has no column {given!r:.80}.{did_you_mean(given, head.column_names)}")
    wanted = [given] if given is not None else [names[name] for name in _LABELS if name in names]
    pairs = [name for name in head.column_names if {*head[name].unique().drop_null().to_pylist()[:3]} <= {0, 1}]
    for name in [name for name in wanted if name in pairs] or ([] if given is not None else pairs):
        share = compute.mean(head[name].cast(pa.float64())).as_py() or 0
        guess.data["parameters"]["label"] = name
        guess.reasons["label", None] = f"holds 0 and 1 alone; {share:.1%} of the first rows are 1"
        return
    for name in [given] if given is not None else [names[name] for name in _RATINGS if name in names]:
        if _is_number(head[name].type):
            numbers = _numbers(head[name].drop_null())
            start = 4.0 if numbers.max() == 5 else float(np.median(numbers))
            guess.data["parameters"] |= {"label": name, "positive_from": start}
            guess.reasons["label", None] = f"{numbers.min():g} to {numbers.max():g}"
            guess.reasons["positive_from", None] = f"so that {(numbers >= start).mean():.1%} are 1"
            return
    what = "no column holds 0 and 1 alone" if given is None else f"column {given!r} holds neither 0 and 1 nor numbers"
    raise DatasetError(f"{path}: {what}. Name the label's with --set data.parameters.label=COLUMN.")


def _guess_time(head: pa.Table, guess: Guess) -> None:
    parameters = guess.data["parameters"]
    parameters["split"] = "fraction"
    guess.reasons["split", None] = "the last tenth of the rows, in the order of the file"
    for column in head.column_names:
        values = head[column].combine_chunks()
        if not (pa.types.is_temporal(values.type) or column.lower() in _TIMES) or values.null_count:
            continue
        if (
            compute.all(compute.less_equal(values[:-1], values[1:])).as_py()
            and compute.count_distinct(values).as_py() > 1
        ):
            parameters |= {"split": "time", "time": column}
            guess.reasons["split", None] = f"the first rows are in the order of {column!r}; the last tenth evaluate"
            return
        guess.reasons["split", None] += f"; {column!r} looks like a time, but rows are not in its order"


def _is_useless(values: pa.ChunkedArray, num_rows: int) -> bool:
    """Return whether a column is constant, or names rows: nothing can be learnt of it."""
    distinct = compute.count_distinct(values).as_py()
    is_key = num_rows > _FEW and not pa.types.is_floating(values.type) and distinct == num_rows
    return distinct < 2 or is_key


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _numbers(values: pa.ChunkedArray) -> Any:
    return values.cast(pa.float64(), safe=False).to_numpy()


def _is_category(name: str, values: pa.ChunkedArray) -> bool:
    if not _is_number(values.type):
        return True
    if (_numbers(values) % 1 != 0).any():
        return False
    words = name.lower().replace("-", "_").split("_")
    looks_so = any(word in _IDS for word in words) or name.endswith(("Id", "ID")) or words[-1].endswith("id")
    return looks_so or compute.count_distinct(values).as_py() <= min(_FEW, len(values) // 20)


def _guess_category(name: str, values: pa.ChunkedArray, guess: Guess, position: int) -> dict[str, Any]:
    texts = values.cast(pa.string())
    found: dict[str, Any] = {"column": name}
    reason = ""
    for separator in ("|", ";", " ") if not _is_number(values.type) else ():
        counts = compute.count_substring(texts, separator).to_numpy()
        if (counts > 0).mean() > 0.1 and compute.count_distinct(texts).as_py() > 2:
            most = int(counts.max() + 1)
            found |= {"separator": separator, "max_ids": max(2, most if guess.is_all else 2 * most)}
            texts = compute.list_flatten(compute.split_pattern(texts, separator))
            reason = f"at most {most} ids in a cell of the first rows; "
            break
    distinct = compute.count_distinct(texts).as_py()
    if distinct > _MANY:
        found["min_count"] = 2
    guess.reasons["sparse", position] = f"{reason}{distinct:,} values in the first {len(values):,} rows"
    return found


def _guess_number(name: str, values: pa.ChunkedArray, guess: Guess, position: int) -> dict[str, Any]:
    numbers = _numbers(values)
    low, middle, high = numbers.min(), float(np.median(numbers)), numbers.max()
    if low >= 0 and high > 20 * max(middle, 0.05):
        transform = "log1p"
    else:
        transform = "as_is" if low >= -3 and high <= 3 else "standardised"
    guess.reasons["dense", position] = f"{low:g} to {high:g}, median {middle:g}"
    return {"column": name, "transform": transform}
