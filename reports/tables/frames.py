"""Typed frames of a document: one row per configuration, run, evaluation and finding; Parquet of them."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from reports.facts.facts import SetFacts
from reports.tables.columns import columns_of, make_frame, record_frame
from reports.tables.records import EvaluationRow, FindingRow, ReportDocument, RunRow, SetRow

CONFIGURATION = columns_of(SetRow)[0]
SET_COLUMNS = columns_of(SetRow)
RUN_COLUMNS = (CONFIGURATION, *columns_of(RunRow))
EVALUATION_COLUMNS = (CONFIGURATION, *columns_of(EvaluationRow))
FINDING_COLUMNS = (CONFIGURATION, *columns_of(FindingRow))


def sets_frame(document: ReportDocument) -> pd.DataFrame:
    """One row per configuration, by SET_COLUMNS."""
    return record_frame(SetRow, document.configurations)


def runs_frame(document: ReportDocument) -> pd.DataFrame:
    """One row per run, by RUN_COLUMNS; of each configuration the committed ones first."""
    names = [column.name for column in RUN_COLUMNS[1:]]
    return make_frame(
        RUN_COLUMNS,
        (
            [one.configuration, *(getattr(run, name) for name in names)]
            for one in document.configurations
            for run in one.runs
        ),
    )


def evaluations_frame(document: ReportDocument) -> pd.DataFrame:
    """One row per evaluation, by EVALUATION_COLUMNS."""
    return make_frame(EVALUATION_COLUMNS, _evaluations(document))


def findings_frame(sets: Sequence[SetFacts]) -> pd.DataFrame:
    """One row per finding on a set or on one of its logs, worst first, by FINDING_COLUMNS."""
    names = [column.name for column in FINDING_COLUMNS[1:]]
    return make_frame(
        FINDING_COLUMNS,
        (
            [one.label, *(getattr(finding, name) for name in names)]
            for one in sets
            for finding in one.verdict.findings
        ),
    )


def _evaluations(document: ReportDocument) -> Iterator[tuple[Any, ...]]:
    for one in document.configurations:
        for run in one.runs:
            lists = run.evaluations
            quantities = zip(lists.epoch_num, lists.samples_count, lists.elapsed_s, lists.quality, strict=True)
            for number, quantity in enumerate(quantities, start=1):
                yield (one.configuration, run.run, number, *quantity, run.path)


def write_parquet(document: ReportDocument, folder: Path) -> tuple[Path, ...]:
    """Write configurations.parquet, runs.parquet and evaluations.parquet into `folder`, made where it is missing.

    One file per table, because their rows are of different things.
    """
    frames = {
        "configurations": sets_frame(document),
        "runs": runs_frame(document),
        "evaluations": evaluations_frame(document),
    }
    folder.mkdir(exist_ok=True)
    paths = []
    for name, frame in frames.items():
        path, draft = folder / f"{name}.parquet", folder / f".{name}.parquet.partial"
        try:
            frame.to_parquet(draft, index=False)
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
        paths.append(path)
    return tuple(paths)
