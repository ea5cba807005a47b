"""The JSON export and its way back: tables to one document, and a document, checked value by value, to tables."""

import json
import math
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import pandas as pd

from reports.tables.columns import (
    AUC_LIMITS,
    CONFIGURATION_COLUMNS,
    EVALUATION_COLUMNS,
    LIMITS,
    PER_EVALUATION,
    RUN_COLUMNS,
    Kind,
)
from reports.tables.tables import Tables, make_frame
from reports.text.formatting import num_bytes, printable
from rules.errors import InputError

SCHEMA_VERSION = 1
MAX_FILE_BYTES = 256 << 20
_Limits = Mapping[str, tuple[float, float]]
_EXPECTED = {"text": "a text or null", "count": "a whole number or null", "number": "a finite number or null"}


def document_of(tables: Tables) -> dict[str, Any]:
    """One object per configuration, with its runs; a run's many evaluations are one list per quantity."""
    runs_of = dict(list(tables.runs.groupby("configuration", sort=False)))
    evaluations_of = dict(list(tables.evaluations.groupby(["configuration", "run", "path"], sort=False)))
    empty = tables.evaluations.iloc[:0]
    configurations = []
    for row in tables.configurations.to_dict("records"):
        label = row["configuration"]
        runs = runs_of[label].drop(columns="configuration").to_dict("records") if label in runs_of else []
        configurations.append(
            {
                **_plain_row(row),
                "runs": [
                    {
                        **_plain_row(run),
                        "evaluations": {
                            name: [plain(value, digits=7) for value in chosen[name]] for name in PER_EVALUATION
                        },
                    }
                    for run in runs
                    for chosen in [evaluations_of.get((label, run["run"], run["path"]), empty)]
                ],
            }
        )
    return {"schema_version": SCHEMA_VERSION, "configurations": configurations}


def tables_from(document: Mapping[str, Any], source: str) -> Tables:
    """The tables of a document that `document_of` made. Raises InputError that names `source` and the place."""
    if not isinstance(document, dict) or "configurations" not in document:
        _refuse(source, "not a JSON export of 'dlrmbench report' (no member 'configurations')")
    if document.get("schema_version") != SCHEMA_VERSION:
        found = printable(document.get("schema_version"), 40)
        _refuse(source, f"schema_version is {found}, this version reads {SCHEMA_VERSION}")
    configurations: list[dict[str, Any]] = []
    runs: list[dict[str, Any]] = []
    evaluations: list[dict[str, Any]] = []
    known: set[tuple[str, str, str]] = set()
    for index, one in enumerate(_list(document["configurations"], source, "configurations")):
        place = f"configurations[{index}]"
        limits = _limits(one)
        row = _row(one, CONFIGURATION_COLUMNS, limits, source, place, nested="runs")
        label = row["configuration"]
        if label is None or any(label == other["configuration"] for other in configurations):
            _refuse(source, f"{place}.configuration is missing or stands twice")
        configurations.append(row)
        for number, run in enumerate(_list(one.get("runs"), source, f"{place}.runs")):
            where = f"{place}.runs[{number}]"
            found_run = _row(run, RUN_COLUMNS, limits, source, where, nested="evaluations")
            found_run["configuration"] = label
            key = (label, found_run["run"], found_run["path"])
            if None in key or key in known:
                _refuse(source, f"{where}: run or path is missing, or both stand twice")
            known.add(key)
            runs.append(found_run)
            evaluations += _evaluations(run.get("evaluations"), found_run, limits, source, f"{where}.evaluations")
    return Tables(
        configurations=make_frame(configurations, CONFIGURATION_COLUMNS),
        runs=make_frame(runs, RUN_COLUMNS),
        evaluations=make_frame(evaluations, EVALUATION_COLUMNS),
    )


def read_document(path: Path) -> Tables:
    """The tables of an exported JSON file. Raises InputError for anything that is not one."""
    try:
        about = path.stat()
        if not stat.S_ISREG(about.st_mode) or about.st_size > MAX_FILE_BYTES:
            _refuse(printable(path), f"not a regular file of at most {num_bytes(MAX_FILE_BYTES)}")
        document = json.loads(path.read_text(encoding="utf-8"), parse_constant=_no_constant)
    except FileNotFoundError:
        raise InputError(f"{printable(path)}: no such file.") from None
    except (ValueError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        _refuse(printable(path), f"not readable JSON: {printable(error, 120)}")
    return tables_from(document, printable(path))


def join_tables(parts: Sequence[Tables]) -> Tables:
    """All rows of all parts; a label that an earlier part has gets a number, as in 'base (2)'."""
    taken: set[str] = set()
    renamed: list[list[pd.DataFrame]] = []
    for part in parts:
        names: dict[str, str] = {}
        for label in part.configurations["configuration"]:
            number = 1
            while (name := label if number == 1 else f"{label} ({number})") in taken:
                number += 1
            taken.add(name)
            names[label] = name
        renamed.append(
            [
                frame.assign(configuration=frame["configuration"].map(names).astype(object))
                for frame in (part.configurations, part.runs, part.evaluations)
            ]
        )
    joined = [pd.concat(frames, ignore_index=True) for frames in zip(*renamed, strict=True)]
    return Tables(configurations=joined[0], runs=joined[1], evaluations=joined[2])


def plain(value: Any, digits: int = 9) -> Any:
    """A value as JSON has it: missing as None, numbers with the digits that a clock of 1 ms can fill."""
    if value is None or value != value:
        return None
    if not isinstance(value, float):
        return value
    # A moment in milliseconds has 13 digits before the point.
    return round(value, 3) if 1e9 <= abs(value) < 1e15 else float(f"{value:.{digits}g}")


def _plain_row(row: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(key): plain(value) for key, value in row.items()}


def _limits(configuration: object) -> _Limits:
    """What the numbers of a configuration and of its runs must lie within, by name."""
    is_defined = isinstance(configuration, dict) and configuration.get("status") in ("own", "official")
    return {**LIMITS, **AUC_LIMITS} if is_defined else LIMITS


def _row(
    value: object, columns: Mapping[str, Kind], limits: _Limits, source: str, place: str, *, nested: str
) -> dict[str, Any]:
    """One object's values by column; what an older export did not have yet is missing."""
    if not isinstance(value, dict):
        _refuse(source, f"{place} is no object")
    for name in value:
        if name not in columns and name != nested:
            _refuse(source, f"{place} has an unknown member {printable(name, 40)!r}")
    return {
        name: _value(value.get(name), kind, limits.get(name), source, f"{place}.{name}")
        for name, kind in columns.items()
    }


def _evaluations(
    value: object, run: Mapping[str, Any], limits: _Limits, source: str, place: str
) -> list[dict[str, Any]]:
    if not isinstance(value, dict):
        _refuse(source, f"{place} is no object")
    lists = {name: _list(value.get(name), source, f"{place}.{name}") for name in PER_EVALUATION}
    if len({len(values) for values in lists.values()}) > 1:
        _refuse(source, f"{place} has lists of different lengths")
    rows = []
    for number, values in enumerate(zip(*lists.values(), strict=True), start=1):
        row: dict[str, Any] = {
            "configuration": run["configuration"], "run": run["run"], "evaluation": number, "path": run["path"]
        }  # fmt: skip
        for name, one in zip(lists, values, strict=True):
            where = f"{place}.{name}[{number - 1}]"
            row[name] = _value(one, EVALUATION_COLUMNS[name], limits.get(name), source, where)
        rows.append(row)
    return rows


def _value(value: object, kind: Kind, limits: tuple[float, float] | None, source: str, place: str) -> Any:
    if value is None or (kind == "text" and isinstance(value, str)):
        return value
    if kind == "text" or isinstance(value, bool) or not isinstance(value, int | float) or not _is_of(kind, value):
        _refuse(source, f"{place} is {printable(value, 40)!r}, expected {_EXPECTED[kind]}")
    low, high = limits if limits is not None else (-math.inf, math.inf)
    if not low <= value <= high:
        expected = f"from {low:g} to {high:g}" if high < math.inf else f"of at least {low:g}"
        _refuse(source, f"{place} is {printable(value, 40)}, expected a number {expected}, or null")
    return value


def _is_of(kind: Kind, value: float) -> bool:
    """A whole number is a number; one too large for a float is none."""
    return isinstance(value, int) if kind == "count" else abs(value) < 1e308


def _list(value: object, source: str, place: str) -> list[Any]:
    if not isinstance(value, list):
        _refuse(source, f"{place} is no list")
    return value


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _refuse(source: str, why: str) -> NoReturn:
    raise InputError(
        f"{source}: {why}. Give a result directory, or the file that 'dlrmbench report --format json' wrote."
    )
