"""Typed frames of a document: one row per configuration, run, evaluation and finding; Parquet of them."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from reports.facts.facts import SetFacts
from reports.tables.columns import Column, columns_of, make_frame, record_frame
from reports.tables.records import EvaluationRow, FindingRow, ReportDocument, RunRow, SetRow
from reports.text.whole import drafted

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
    return _labelled_frame(RUN_COLUMNS, ((row.configuration, row.runs) for row in document.configurations))


def evaluations_frame(document: ReportDocument) -> pd.DataFrame:
    """One row per evaluation, by EVALUATION_COLUMNS."""
    return make_frame(EVALUATION_COLUMNS, _evaluations(document))


def findings_frame(sets: Sequence[SetFacts]) -> pd.DataFrame:
    """One row per finding on a set or on one of its logs, worst first, by FINDING_COLUMNS."""
    return _labelled_frame(FINDING_COLUMNS, ((facts.label, facts.verdict.findings) for facts in sets))


def _labelled_frame(columns: Sequence[Column], parts: Iterable[tuple[str, Iterable[object]]]) -> pd.DataFrame:
    """A frame of several configurations' rows, whose first column is the label of the configuration."""
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
        path = folder / f"{name}.parquet"
        with drafted(path, ".parquet") as draft:
            frame.to_parquet(draft, index=False)
        paths.append(path)
    return tuple(paths)
