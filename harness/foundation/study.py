"""Make a study: a table whose every column says where its numbers come from, for everything that is not a run.

A verb computes rows and calls `make_study`; `rules.records.study` is the record, `reports.page.studies.study` shows
it.
"""

from collections.abc import Iterable, Sequence

from rules.benchmarks.loader import Benchmark
from rules.records.study import Cell, Origin, Parameter, StudyCheck, StudyColumn, StudyRecord, StudyTable

Columns = Sequence[tuple[str, str | None, Origin]]
"""The columns of a table: name, unit, and where its numbers come from."""


def make_study(
    kind: str,
    title: str,
    benchmark: Benchmark | None,
    *,
    tables: Sequence[StudyTable],
    parameters: Sequence[Parameter],
    findings: Iterable[str],
    checks: Iterable[StudyCheck] = (),
    seed: int | None = None,
) -> StudyRecord:
    """Make a study of a benchmark, or of several where that is None. `seed` is None where nothing is drawn."""
    return StudyRecord(
        kind=kind,
        title=title,
        benchmark=None if benchmark is None else benchmark.name,
        definition_sha256=None if benchmark is None else benchmark.definition_sha256,
        seed=seed,
        parameters=tuple(parameters),
        tables=tuple(tables),
        findings=tuple(findings),
        checks=tuple(checks),
    )


def make_table(title: str, columns: Columns, rows: Iterable[Sequence[Cell]]) -> StudyTable:
    """Make a table of (name, unit, origin) of each column; ValueError where a row has more cells or fewer."""
    made = tuple(StudyColumn(name=name, unit=unit, origin=origin) for name, unit, origin in columns)
    return StudyTable(title=title, columns=made, rows=tuple(tuple(row) for row in rows))


def make_check(name: str, *, expected: float, found: float, tolerance: float = 0.0) -> StudyCheck:
    """Make a check that holds within a relative `tolerance`."""
    is_passed = abs(found - expected) <= tolerance * abs(expected)
    return StudyCheck(name=name, expected=expected, found=found, is_passed=is_passed)
