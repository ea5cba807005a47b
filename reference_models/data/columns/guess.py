"""Guess what the columns of a file are from its first rows; `init --from-columns` writes each with its reason."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
from pyarrow import csv, parquet

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


def guess_columns(path: Path, name: str, label: str | None = None) -> Guess:
    """Guess [data] of a definition `name` from the first rows of a file; `label` names that column if it is given.

    Raises DatasetError for a file that is empty, cannot be read or has no label, ConfigError where `label` is no
    column.
    """
    parameters: dict[str, Any] = {}
    try:
        head, num_rows, left_out = _read_parquet(path) if is_parquet(path) else _read_text(path, parameters)
    except (pa.ArrowException, pa.ArrowInvalid) as error:
        raise DatasetError(f"{path}: cannot be read: {str(error).splitlines()[0]:.200}") from None
    if head.empty:
        raise DatasetError(f"{path}: has a header and no rows. Give a file with one sample per line.")
    if len(repeated := head.columns[head.columns.duplicated()]):
        raise DatasetError(f"{path}: has several columns {str(repeated[0])!r:.80}. Rename all but one.")
    guess = Guess({"kind": "columns", "name": name, "parameters": parameters}, num_rows, len(head))
    _guess_label(path, head, label, guess)
    others = head.drop(columns=parameters["label"])
    _guess_time(others, guess)
    dense: list[dict[str, Any]] = []
    sparse: list[dict[str, Any]] = []
    for column in others:
        values = others[column].dropna()
        if column == parameters.get("time") or values.nunique() < 2 or _is_key(values, len(head)):
            left_out.append(str(column))
        elif _is_category(str(column), values):
            sparse.append(_guess_category(str(column), values, guess, len(sparse)))
        else:
            dense.append(_guess_number(str(column), values, guess, len(dense)))
    if not sparse:
        raise DatasetError(f"{path}: no column looks like a category; a model of embedding tables needs one.")
    if left_out:
        shown = ", ".join(map(ascii, left_out[:20])) + (", …" if len(left_out) > 20 else "")
        guess.reasons["sparse", None] = f"left out: {shown} (the time, constant, nested, or other values in all rows)"
    parameters |= {"dense": dense, "sparse": sparse}
    return guess


def _read_parquet(path: Path) -> tuple[pd.DataFrame, int, list[str]]:
    with parquet.ParquetFile(path, pre_buffer=False) as file:
        nested = [entry.name for entry in file.schema_arrow if pa.types.is_nested(entry.type)]
        flat = [entry.name for entry in file.schema_arrow if entry.name not in nested]
        batch = next(file.iter_batches(batch_size=HEAD_ROWS, columns=flat, use_threads=False), None)
        rows = file.metadata.num_rows
    return (pd.DataFrame() if batch is None else batch.to_pandas()), rows, nested


def _read_text(path: Path, parameters: dict[str, Any]) -> tuple[pd.DataFrame, int, list[str]]:
    with TextSource(path).opened() as text:
        head = text.read(HEAD_BYTES)
        is_whole = not text.read(1)
    if not is_whole:
        head = head[: head.rfind(b"\n") + 1]
    delimiter = max(_DELIMITERS, key=lambda mark: len(read_header(path, mark)))
    if delimiter != ",":
        parameters["delimiter"] = delimiter
    table = csv.read_csv(
        pa.BufferReader(head),
        csv.ReadOptions(use_threads=False, block_size=HEAD_BYTES),
        csv.ParseOptions(delimiter=delimiter, newlines_in_values=True, invalid_row_handler=lambda row: "skip"),
        csv.ConvertOptions(null_values=[*NULLS], strings_can_be_null=True, check_utf8=False),
    )
    factor = 1.0 if is_whole else path.stat().st_size / len(head)
    return table.to_pandas(), round(table.num_rows * factor), []


def _guess_label(path: Path, head: pd.DataFrame, given: str | None, guess: Guess) -> None:
    names = {str(name).lower(): str(name) for name in reversed(head.columns)}
    if given is not None and given not in head:
        raise ConfigError(f"{path}: has no column {given!r:.80}.{did_you_mean(given, [*map(str, head.columns)])}")
    wanted = [given] if given is not None else [names[name] for name in _LABELS if name in names]
    pairs = [str(name) for name in head if set(head[name].dropna().unique()) in ({0, 1}, {0}, {1})]
    for name in [name for name in wanted if name in pairs] or ([] if given is not None else pairs):
        guess.data["parameters"]["label"] = name
        guess.reasons["label", None] = f"holds 0 and 1 alone; {head[name].mean():.1%} of the first rows are 1"
        return
    for name in [given] if given is not None else [names[name] for name in _RATINGS if name in names]:
        if pd.api.types.is_numeric_dtype(head[name]):
            start = 4.0 if head[name].max() == 5 else float(head[name].median())
            guess.data["parameters"] |= {"label": name, "positive_from": start}
            guess.reasons["label", None] = f"{head[name].min():g} to {head[name].max():g}"
            guess.reasons["positive_from", None] = f"so that {(head[name] >= start).mean():.1%} are 1"
            return
    what = "no column holds 0 and 1 alone" if given is None else f"column {given!r} holds neither 0 and 1 nor numbers"
    raise DatasetError(f"{path}: {what}. Name the label's with --set data.parameters.label=COLUMN.")


def _guess_time(head: pd.DataFrame, guess: Guess) -> None:
    parameters = guess.data["parameters"]
    parameters["split"] = "fraction"
    guess.reasons["split", None] = "the last tenth of the rows, in the order of the file"
    for column in head:
        looks_so = pd.api.types.is_datetime64_any_dtype(head[column]) or str(column).lower() in _TIMES
        if not looks_so or head[column].nunique() < 2:
            continue
        if head[column].is_monotonic_increasing:
            parameters |= {"split": "time", "time": str(column)}
            guess.reasons["split", None] = (
                f"the first rows are in the order of {str(column)!r}; the last tenth evaluate"
            )
            return
        guess.reasons["split", None] += f"; {str(column)!r} looks like a time, but rows are not in its order"


def _is_key(values: pd.Series, num_rows: int) -> bool:
    """Return whether a column of text or whole numbers differs in each row, so that nothing can be learnt of it."""
    return num_rows > _FEW and not pd.api.types.is_float_dtype(values) and values.nunique() == num_rows


def _is_category(name: str, values: pd.Series) -> bool:
    if not pd.api.types.is_numeric_dtype(values) or pd.api.types.is_bool_dtype(values):
        return True
    if (values % 1 != 0).any():
        return False
    words = name.lower().replace("-", "_").split("_")
    looks_so = any(word in _IDS for word in words) or name.endswith(("Id", "ID")) or words[-1].endswith("id")
    return looks_so or values.nunique() <= min(_FEW, len(values) // 20)


def _guess_category(name: str, values: pd.Series, guess: Guess, position: int) -> dict[str, Any]:
    texts = values.astype(str)
    found: dict[str, Any] = {"column": name}
    for separator in ("|", ";", " "):
        counts = texts.str.count(re.escape(separator))
        if not pd.api.types.is_numeric_dtype(values) and (counts > 0).mean() > 0.1 and texts.nunique() > 2:
            most = int(counts.max() + 1)
            found |= {
                "separator": separator,
                "max_ids": max(2, most if guess.num_rows == guess.num_read else 2 * most),
            }
            texts = texts.str.split(separator, regex=False).explode()
            guess.reasons["sparse", position] = f"at most {most} ids in a cell of the first rows; "
            break
    distinct = texts.nunique()
    if distinct > _MANY:
        found["min_count"] = 2
    before = guess.reasons.get(("sparse", position), "")
    guess.reasons["sparse", position] = f"{before}{distinct:,} values in the first {len(values):,} rows"
    return found


def _guess_number(name: str, values: pd.Series, guess: Guess, position: int) -> dict[str, Any]:
    numbers = values.astype(float)
    low, middle, high = numbers.min(), numbers.median(), numbers.max()
    if low >= 0 and high > 20 * max(middle, 0.05):
        transform = "log1p"
    else:
        transform = "as_is" if low >= -3 and high <= 3 else "standardised"
    guess.reasons["dense", position] = f"{low:g} to {high:g}, median {middle:g}"
    return {"column": name, "transform": transform}
