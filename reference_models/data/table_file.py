"""Read descriptions of embedding tables (name, rows, width) from a user's file: CSV with a header, or a JSON list.

Each caller of `read_tables` names the columns that it needs; the file may have any other of the COLUMNS, too, so that
one file describes a model to every caller. Imports no torch.
"""

import csv
import io
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from reference_models.process.errors import DatasetError, did_you_mean
from reference_models.process.open_file import read_regular

FORMS = (".csv", ".json")
"""Endings of the names of files that describe embedding tables: CSV and JSON."""
MAX_TABLES = 100_000
_MAX_BYTES, _MAX_NAME, _SHOWN = 16 << 20, 200, 40
_LIKE = 'Such a file is \'name,rows,width,pooling\' and a line per table, or [{"name": "a", "rows": 1000}, ...].'

Side = Literal["user", "item"]
Precision = Literal["fp32", "fp16", "int8", "int4"]
Optimizer = Literal["sgd", "adagrad", "rowwise_adagrad"]


class TableFileColumn(NamedTuple):
    """Valid cells of a column of a file that describes embedding tables: one of `words`, or a number from `least` to
    `most`; any text if neither `words` nor `least` is given."""

    least: float | None = None
    most: float = 0.0
    is_whole: bool = True
    words: tuple[str, ...] = ()

    @property
    def expected(self) -> str:
        """Return the description of the column's valid cells for messages, such as 'a number from 0 to 8'."""
        if self.words:
            return " or ".join(self.words)
        if self.least is None:
            return f"a text of 1 to {_MAX_NAME} characters"
        return f"a {'whole ' * self.is_whole}number from {self.least:g} to {self.most:.15g}"

    def read(self, cell: Any) -> Any:
        """Return the value of a cell (text of CSV, value of JSON). Raises ValueError for a cell that is not valid."""
        if self.least is None:
            if not isinstance(cell, str) or not 0 < len(cell) <= _MAX_NAME or (self.words and cell not in self.words):
                raise ValueError
            return cell
        if not isinstance(cell, str | int | float) or isinstance(cell, bool):
            raise ValueError
        value = int(cell) if self.is_whole and isinstance(cell, str) else float(cell)
        if not self.least <= value <= self.most or (self.is_whole and value % 1):
            raise ValueError
        return int(value) if self.is_whole else float(value)


COLUMNS: Mapping[str, TableFileColumn] = {
    "name": TableFileColumn(),
    "rows": TableFileColumn(least=1, most=1 << 40),
    "width": TableFileColumn(least=1, most=1 << 16),
    "pooling": TableFileColumn(least=1e-6, most=1e6, is_whole=False),
    "side": TableFileColumn(words=("user", "item")),
    "optimizer": TableFileColumn(words=("sgd", "adagrad", "rowwise_adagrad")),
    "precision": TableFileColumn(words=("fp32", "fp16", "int8", "int4")),
    "zipf_exponent": TableFileColumn(least=0, most=8, is_whole=False),
}
"""Columns that a file of embedding tables may have: a dict from a column's name to its valid cells."""
_ALWAYS = ("name", "rows")


@dataclass(frozen=True, kw_only=True, slots=True)
class TableEntry:
    """Embedding table as described in a file; members that the file leaves out are None."""

    name: str
    rows: int
    width: int | None = None
    """Values per row of the embedding table (its dimension)."""
    pooling: float | None = None
    """Mean number of lookups in the embedding table per sample."""
    side: Side | None = None
    """Whether a query looks the table up once, for its user (`user`), or for each ranked item (`item`)."""
    optimizer: Optimizer | None = None
    precision: Precision | None = None
    """Number format in which the values of the embedding table's rows are stored."""
    zipf_exponent: float | None = None
    """Exponent of Zipf's law of an embedding table's lookups: P(row) ~ rank ** -exponent; 0 is uniform."""
    place: str
    """File and line that describe the table, for error messages: 'tables.csv:3'."""


def read_tables(path: Path, needs: Collection[str] = ()) -> tuple[TableEntry, ...]:
    """Read the embedding tables that a .csv or .json file of at most 16 MiB describes; return them in the file's
    order.

    Name and rows are always required; `needs` names further COLUMNS that no table may leave empty. Raises
    DatasetError (exit code 8) if the file is not valid: the message names file and line, what was found, what was
    expected and what to do. Raises OSError if the file cannot be read.
    """
    if path.suffix not in FORMS:
        raise DatasetError(f"{path}: expected a file of tables, whose name ends in {' or '.join(FORMS)}.")
    try:
        text = read_regular(path, _MAX_BYTES, follows=True).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise DatasetError(f"{path}:{line}: text that is not UTF-8. Save the file as UTF-8.") from None
    found, places = list[TableEntry](), dict[str, str]()
    for line, cells in (_read_csv if path.suffix == ".csv" else _read_json)(path, text):
        place = f"{path}:{line}"
        entry = _make_entry(cells, {*_ALWAYS, *needs}, place)
        if entry.name in places:
            raise DatasetError(
                f"{place}: table {entry.name!r:.{_SHOWN}} is already in {places[entry.name]}. "
                "Give each table a name of its own."
            )
        places[entry.name] = place
        found.append(entry)
        if len(found) > MAX_TABLES:
            raise DatasetError(f"{place}: more than {MAX_TABLES:,} tables. Leave some out.")
    if not found:
        raise DatasetError(f"{path}: no tables, expected at least one. {_LIKE}")
    return tuple(found)


def _make_entry(cells: Mapping[str, Any], needs: Collection[str], place: str) -> TableEntry:
    values = dict[str, Any]()
    for name, cell in cells.items():
        try:
            values[name] = COLUMNS[name].read(cell)
        except (ValueError, OverflowError):
            found = f"{cell!r:.{_SHOWN}}"
            raise DatasetError(f"{place}: {name}: found {found}, expected {COLUMNS[name].expected}.") from None
    for name in COLUMNS:
        if name in needs and name not in values:
            raise DatasetError(f"{place}: {name}: is missing, expected {COLUMNS[name].expected}. {_LIKE}")
    return TableEntry(**values, place=place)


def _refuse_unknown(names: Iterable[str], place: str) -> None:
    for name in names:
        if name not in COLUMNS:
            known = did_you_mean(name, [*COLUMNS])
            raise DatasetError(f"{place}: column {name!r:.{_SHOWN}} is not known. Leave it out.{known}")


def _read_csv(path: Path, text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield, for each row of CSV, the line number and a dict from column name to cell; empty cells are left out."""
    rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = [name.strip() for name in next(rows, [])]
        if missing := [name for name in _ALWAYS if name not in header]:
            raise DatasetError(f"{path}:1: no column {missing[0]!r} in the first line. {_LIKE}")
        _refuse_unknown(header, f"{path}:1")
        if twice := next((name for name in header if header.count(name) > 1), None):
            raise DatasetError(f"{path}:1: two columns {twice!r}. Leave one out.")
        for row in rows:
            cells = [cell.strip() for cell in row]
            if not any(cells):
                continue
            if len(cells) != len(header):
                raise DatasetError(
                    f"{path}:{rows.line_num}: {len(cells)} cells, expected {len(header)}, as many as the first line."
                )
            yield rows.line_num, {name: cell for name, cell in zip(header, cells, strict=True) if cell}
    except csv.Error as error:
        raise DatasetError(f"{path}:{rows.line_num}: {error}, expected cells with commas between. {_LIKE}") from None


def _read_json(path: Path, text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the line number and the members of each object in a JSON list; members that are null are left out."""
    decoder = json.JSONDecoder(object_pairs_hook=_refuse_twice, parse_constant=_refuse_constant)
    line, counted, at = 1, 0, _skip_space(text, 0)

    def refuse(found: str, expected: str) -> DatasetError:
        return DatasetError(f"{path}:{line}: found {found:.{_SHOWN}}, expected {expected}. {_LIKE}")

    if text[at : at + 1] != "[":
        raise refuse(repr(text[at : at + 20]), "a list of tables")
    at = _skip_space(text, at + 1)
    while text[at : at + 1] != "]":
        line, counted = line + text.count("\n", counted, at), at
        try:
            value, end = decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            raise DatasetError(f"{path}:{error.lineno}: {error.msg}, expected JSON. {_LIKE}") from None
        except (ValueError, RecursionError) as error:
            why = "values nested too deep" if isinstance(error, RecursionError) else str(error)
            raise refuse(why, "a table of names and numbers") from None
        if not isinstance(value, dict):
            raise refuse(repr(value), "a table, which is an object")
        _refuse_unknown(value, f"{path}:{line}")
        yield line, {name: cell for name, cell in value.items() if cell is not None}
        at = _skip_space(text, end)
        if text[at : at + 1] == ",":
            at = _skip_space(text, at + 1)
        elif text[at : at + 1] != "]":
            line = line + text.count("\n", counted, at)
            raise refuse(repr(text[at : at + 20]) if at < len(text) else "the end", "a comma or the end of the list")
    if (rest := text[at + 1 :].strip()) != "":
        line = line + text.count("\n", counted, at)
        raise refuse(repr(rest[:20]), "nothing behind the list")


def _skip_space(text: str, at: int) -> int:
    while text[at : at + 1] in (" ", "\t", "\r", "\n"):
        at += 1
    return at


def _refuse_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a column given twice")
    return found


def _refuse_constant(word: str) -> float:
    raise ValueError(word)
