"""Make the record of a study. A study is a measurement or simulation whose result is not a training run. It consists
of findings, and of tables that state the source of each column's numbers (measured, modelled, given or another).

A command computes the rows and calls `make_study`; `rules.records.study` defines the record,
`reports.page.studies.study` renders it.
"""

from collections.abc import Iterable, Sequence

from rules.benchmarks.loader import Benchmark
from rules.records.study import Cell, Origin, Parameter, StudyCheck, StudyColumn, StudyRecord, StudyTable

Columns = Sequence[tuple[str, str | None, Origin]]
"""Columns of a table: name, unit, and the source of the numbers (measured, modelled, given or another)."""


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
    """Return the record of a study (a measurement or simulation whose result is not a training run). `benchmark` is
    None for a study of several benchmarks. `seed` is None if nothing in the study is random."""
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
    """Return a table made from each column's (name, unit, source of the numbers); ValueError where a row has another
    number of cells."""
    made = tuple(StudyColumn(name=name, unit=unit, origin=origin) for name, unit, origin in columns)
    return StudyTable(title=title, columns=made, rows=tuple(tuple(row) for row in rows))


def make_check(name: str, *, expected: float, found: float, tolerance: float = 0.0) -> StudyCheck:
    """Return a check for a study's record: it passes where the number `found` differs from `expected` by at most the
    fraction `tolerance` of `expected`."""
    is_passed = abs(found - expected) <= tolerance * abs(expected)
    return StudyCheck(name=name, expected=expected, found=found, is_passed=is_passed)
