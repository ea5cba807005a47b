"""Makes the blocks of a study (a computed or measured analysis): findings, parameters, tables and checks; every
column states the origin of its numbers."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeGuard

from reports.document.blocks import (
    Block,
    Bullets,
    Cell,
    Fact,
    Heading,
    Prose,
    Table,
    TableColumn,
    table_of,
    text_table,
)
from reports.facts.profile import amount
from reports.parts.load import environment_words
from reports.text.formatting import (
    MICROSECONDS,
    MILLISECONDS,
    MISSING,
    SECONDS,
    TimeUnit,
    byte_unit,
    count,
    decimal_unit,
    percent,
    printable,
    significant,
    time_unit,
    with_unit,
)
from rules.records.study import TIMELINE, Parameter, StudyCheck, StudyColumn, StudyRecord, StudyTable
from rules.records.study import Cell as Value

_STEP = re.compile(
    r"(?:^|(?<=[.?!] ))Next(?:, (?P<why>[^:]+))?: (?P<first>(?:(?!dlrmbench ).)*)(?P<command>dlrmbench .+)?$"
)
_MAX_COMMAND = 400
_LEAST_S = 1e-10
"""Least time above 0, in seconds, that is printed as a number: modelled times are not accurate enough for smaller
numbers."""
_BELOW_LEAST = "<0.0001 µs"
"""Text that is printed for times below _LEAST_S."""


def study_blocks(study: StudyRecord) -> tuple[Block, ...]:
    """Return the blocks (tables, texts) of a whole study, a computed or measured analysis; its texts are made
    printable, since anyone may have written the file."""
    return (Heading(text=printable(study.title)), *study_parts(study))


def study_parts(study: StudyRecord) -> tuple[Block, ...]:
    """Return the blocks (tables, texts) of a study, a computed or measured analysis, without its heading, for a page
    section that has one."""
    return (
        *(Prose(text=printable(finding)) for finding in study.findings),
        *(study_table(table) for table in study.tables if not table.title.startswith(TIMELINE)),
        *study_grounds(study),
        *((Prose(text=words),) if (words := environment_words(study.preflight, study.loads)) else ()),
    )


def split_step(finding: str) -> tuple[str, Fact | None]:
    """Split a finding of a study (a computed or measured analysis) into its text and a row for a page's head. The row
    has the next command, which the last sentence of the finding suggests ('Next, to see more: dlrmbench report …').
    If the finding suggests no command, or one that is too long for the head, return the whole finding and None."""
    found = _STEP.search(finding)
    if found is None or len(found[0]) > _MAX_COMMAND:
        return finding, None
    why, first, command = (printable(found[part] or "") for part in ("why", "first", "command"))
    note = "; ".join(filter(None, (why, first.rstrip("; ") if command else "")))
    step = Fact(name="Next", value=command or first, note=f": {note}" if note else "", is_code=bool(command))
    return finding[: found.start()].rstrip(), step


def study_grounds(study: StudyRecord) -> tuple[Block, ...]:
    return (
        *((_parameters_table(study.parameters),) if study.parameters else ()),
        *((_checks(study.checks),) if study.checks else ()),
    )


def study_table(table: StudyTable) -> Table:
    """Return one table of a study (a computed or measured analysis), with the origin (measured, computed …) of each
    column's numbers."""
    unit = _shared_seconds(table)
    shown = [_shown(column, [row[index] for row in table.rows], unit) for index, column in enumerate(table.columns)]
    return text_table(
        [
            TableColumn(
                name=f"{printable(column.name)} ({column.origin})",
                is_number=_is_number(table, index),
                names_row=column.origin == "given",
            )
            for index, column in enumerate(table.columns)
        ],
        tuple(zip(*shown, strict=True)),
        caption=printable(table.title),
    )


def without_empty_columns(table: StudyTable) -> StudyTable:
    """Return a table of a study (a computed or measured analysis) without those columns that are empty in all rows; a
    table that has no rows, or only empty columns, is returned unchanged."""
    columns = range(len(table.columns))
    kept = [at for at in columns if not table.rows or any(row[at] is not None for row in table.rows)]
    if not kept:
        return table
    rows = tuple(tuple(row[at] for at in kept) for row in table.rows)
    return StudyTable(title=table.title, columns=tuple(table.columns[at] for at in kept), rows=rows)


def _is_number(table: StudyTable, index: int) -> bool:
    return any(isinstance(row[index], int | float) for row in table.rows)


def _shown(column: StudyColumn, values: Sequence[Value], seconds: TimeUnit | None) -> list[Cell]:
    """Return the cells of one column of the table of a study (a computed or measured analysis). Times are in the unit
    `seconds`; where that is None, in a unit chosen for the column."""
    is_head = column.unit is not None and column.unit == column.name.lower()
    amounts = [value for value in values if is_amount(value)]
    number = significant if is_head else _number_format(column.unit, amounts, seconds)
    return [Cell(text=_text(value, number), sort=repr(value) if is_amount(value) else "") for value in values]


def is_amount(value: Value) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number_format(
    unit: str | None, values: Sequence[float], shared: TimeUnit | None = None
) -> Callable[[float], str]:
    """Return the function that formats all numbers of a column in the column's unit. All times of a column have one
    time unit (`shared` if given), and all bytes one binary prefix. Shares are in percent. In any other unit, the
    numbers have one SI prefix, chosen for the largest value. Numbers without a unit have no prefix."""
    if unit == "s":
        text = _seconds_format([value for value in values if not 0 < value < _LEAST_S], shared)
        return lambda value: _BELOW_LEAST if 0 < value < _LEAST_S else text(value)
    if unit == "B":
        size = byte_unit(values)
        if _are_near(values):
            return lambda value: f"{size.number(value)} {size.name}"
        return lambda value: f"{significant(value / size.num_bytes)} {size.name}"
    if unit == "share":
        return percent
    if unit is not None:
        # Counts, whose units are words in lower case, get no prefix below 1 (such as m): they have no thousandths.
        prefix = decimal_unit(values if unit[:1].isupper() else [*values, 1.0])
        return lambda value: with_unit(
            f"{significant(value / prefix.factor)} {prefix.name}".rstrip(), printable(unit)
        )
    return lambda value: count(value) if float(value).is_integer() else f"{value:.4g}"


def _seconds_format(values: Sequence[float], shared: TimeUnit | None = None) -> Callable[[float], str]:
    """Return the function that formats a column's times, given in seconds, all in one unit; `values` must have no
    time between 0 and `_LEAST_S`."""
    if _are_near(values):
        return _near_seconds(values, shared).text
    seconds = shared or time_unit(values)
    return lambda value: f"{significant(value / seconds.seconds)} {seconds.name}"


def _shared_seconds(table: StudyTable) -> TimeUnit | None:
    """Return one time unit for all times of a table, so that the times in a row can be compared: the largest unit in
    which every time is at least 0.1 and the largest time is below 10,000. None if no unit meets this, or if none is
    needed since all columns would have the same one."""
    columns = [
        [value for row in table.rows if is_amount(value := row[index]) and value >= _LEAST_S and math.isfinite(value)]
        for index, column in enumerate(table.columns)
        if column.unit == "s"
    ]
    columns = [values for values in columns if values]
    own = {(_near_seconds(values) if _are_near(values) else time_unit(values)).name for values in columns}
    if len(own) < 2:
        return None
    least, most = min(map(min, columns)), max(map(max, columns))
    fitting = (unit for unit in (SECONDS, MILLISECONDS, MICROSECONDS) if least / unit.seconds >= 0.1)
    return next((unit for unit in fitting if most / unit.seconds < 1e4), None)


def _near_seconds(values: Sequence[float], shared: TimeUnit | None = None) -> TimeUnit:
    """Return the time unit of a column, and its number of decimals. The unit is `shared` if given, else the unit that
    suits the smallest time. The smallest time gets three significant digits; a column of a single time in its own
    unit has the unit's usual decimals."""
    positive = {value for value in values if value > 0 and math.isfinite(value)}
    least = min(positive, default=None)
    own = time_unit([least])
    seconds = shared or own
    if least is None or (len(positive) == 1 and seconds == own):
        return seconds
    digits = 2 - math.floor(math.log10(least / seconds.seconds))
    return replace(seconds, digits=max(seconds.digits, digits))


def _are_near(values: Sequence[float]) -> bool:
    """Return whether all values of a column can have the same number of decimals, because the largest is at most 5
    times the smallest."""
    positive = [value for value in values if value > 0]
    return not positive or max(positive) <= 5 * min(positive)


def _text(value: Value, number: Callable[[float], str]) -> str:
    if value is None:
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return _runs(value)
    return printable(value) if isinstance(value, str) else number(value)


def _runs(numbers: Sequence[int]) -> str:
    """Return whole numbers as ranges: '0-7', '1, 4'."""
    present = set(numbers)
    starts = sorted(number for number in present if number - 1 not in present)
    ends = sorted(number for number in present if number + 1 not in present)
    runs = zip(starts, ends, strict=True)
    return ", ".join(str(start) if start == end else f"{start}-{end}" for start, end in runs)


def _parameters_table(parameters: Sequence[Parameter]) -> Table:
    """Return the table of the parameters of a study (a computed or measured analysis), each with the source of its
    value."""
    has_notes = any(parameter.note for parameter in parameters)
    return table_of(
        parameters,
        (
            ("Parameter", "name", printable),
            ("Value", _parameter_text),
            ("Source", "source"),
            ("Note" if has_notes else None, "note", printable),
        ),
        caption="Parameters",
        style="noted" if has_notes else "",
    )


def _parameter_text(parameter: Parameter) -> str:
    value = parameter.value
    return _text(value, _number_format(parameter.unit, [value] if is_amount(value) else []))


def _checks(checks: Sequence[StudyCheck]) -> Bullets:
    return Bullets(
        items=tuple(
            f"{printable(check.name)}: expected {check.expected:.10g}, found {check.found:.10g}"
            + ("" if check.is_passed else "; FAILED")
            for check in checks
        ),
        kind="missing" if all(check.is_passed for check in checks) else "warnings",
    )


def rows_of(table: StudyTable) -> list[Mapping[str, Value]]:
    """Return the rows of a study's table (of a computed or measured analysis), each as a mapping from column names to
    values."""
    names = [column.name for column in table.columns]
    return [dict(zip(names, row, strict=True)) for row in table.rows]


def find_parameter(study: StudyRecord, name: str) -> float | None:
    """Return the value of the parameter `name` of a study (a computed or measured analysis), if it is a number above
    0 that charts can draw (1e-15 to 1e25); None if it is not, or the study has no such parameter."""
    return next((number_of(parameter.value) for parameter in study.parameters if parameter.name == name), None)


def number_of(value: Value) -> float | None:
    """Return a value of a study's table if it is a number above 0 that charts can draw (1e-15 to 1e25), else None."""
    return amount(value) if is_amount(value) else None
