"""Reads results as typed pandas data frames, for notebooks: `frames.read("results")`. reports/README.md lists every
column."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from reports.comparison.comparability import refused_words
from reports.comparison.comparison import CONFIDENCE, compare_results, context_of
from reports.comparison.export import COMPARISON_COLUMNS, comparison_document, comparison_rows
from reports.comparison.noise import describe_sets
from reports.comparison.records import ComparisonDocument
from reports.comparison.sources import results_to_compare
from reports.results.logs import gather
from reports.results.measured import find_measured
from reports.results.result import Result
from reports.tables.documents import is_document, join_documents, read_document, read_printed
from reports.tables.frames import (
    detail_frames,
    evaluations_frame,
    findings_frame,
    make_frame,
    measurements_frame,
    record_frame,
    runs_frame,
    sets_frame,
)
from reports.tables.measurements import with_measured
from reports.tables.scores import ScoreDocument, ScoreRecord
from rules.errors import InputError
from rules.logs.text import printable
from rules.tree.inventory import Inventory, take_inventory
from rules.tree.result_set import real_path


@dataclass(frozen=True, kw_only=True, slots=True)
class Frames:
    """Data frames of the results found at some paths. Units are in column names, or in the column `unit`. A missing
    value is pandas' missing value, never 0.

    `sets` has a row per result set. `runs` has a row per run or unfinished attempt. `evaluations` has a row per
    evaluation. `findings` has a row per place at which a rule is broken. `measurements` has a row per process of a
    measurement, such as of throughput. `details` maps names to tables of a single kind of measurement; each table is
    also an attribute of that name. Dtypes do not depend on the data, even without rows. `problems` are sentences
    about files that could not be used, and about result directories of MLPerf's other benchmarks, which have no row.
    """

    sets: pd.DataFrame
    runs: pd.DataFrame
    evaluations: pd.DataFrame
    findings: pd.DataFrame
    measurements: pd.DataFrame
    details: Mapping[str, pd.DataFrame]
    problems: tuple[str, ...]

    def __getattr__(self, name: str) -> pd.DataFrame:
        """Return the data frame of a single kind of measurement, such as throughput, by the name of its table."""
        details: Mapping[str, pd.DataFrame] = {} if name == "details" else self.details
        if name not in details:
            raise AttributeError(f"{name!r} is no table here; those of kinds of measurement are {', '.join(details)}")
        return details[name]


def read(*paths: str | Path, benchmark_file: str | Path | None = None, second_opinion: bool = False) -> Frames:
    """Read all results at or below `paths`: run sets, result directories and logs of any harness, measurements, and
    JSON exports (`report --format json`).

    Every set is read, judged and scored once. `benchmark_file` defines a user's own benchmark; with `second_opinion`
    the official MLPerf checker is run too. A JSON export has no findings. Raises InputError where a path holds no
    results, or an export is damaged.
    """
    given = [Path(path) for path in paths]
    exports = [read_document(path) for path in given if is_document(path)]
    inventories = [take_inventory(path, benchmark_file) for path in given if not is_document(path)]
    sets = gather(
        [found for found in inventories if found.result_sets or not found.holds_measurements],
        second_opinion=second_opinion,
        benchmark_file=None if benchmark_file is None else Path(benchmark_file),
    )
    problems = [problem for result in sets for problem in result.problems]
    problems += [f"{printable(str(other.path))}: {other}" for found in inventories for other in found.others]
    measured = _read_measured(inventories, problems)
    document = join_documents([with_measured(describe_sets(sets), measured, sets), *exports])
    return Frames(
        sets=sets_frame(document),
        runs=runs_frame(document),
        evaluations=evaluations_frame(document),
        findings=findings_frame(sets),
        measurements=measurements_frame(document),
        details=detail_frames(document),
        problems=tuple(dict.fromkeys(problems)),
    )


def _read_measured(inventories: Sequence[Inventory], problems: list[str]) -> list[Result]:
    """Read every measurement that can be read, kind by kind; runs that train to a target quality are not
    measurements. If several paths lead to a measurement, it is read once. Damage found in files is added to
    `problems`."""
    places: dict[tuple[Path, str], Path] = {}
    for found in inventories:
        for kind, folders in found.measurements.items():
            for folder in folders:
                places.setdefault((real_path(folder), kind), folder)
    read_sets = (find_measured(folder, kind, problems) for (_, kind), folder in places.items())
    return [measured for measured in read_sets if measured is not None]


def compare(
    base: str | Path, *news: str | Path, min_effect: float | None = None, confidence: float = CONFIDENCE
) -> pd.DataFrame:
    """Compare each result of `news` with the baseline `base`. Return a data frame with a row per compared quantity
    (such as the time to train or the throughput). A row has the ratio or difference, its interval, and the verdict.

    `min_effect` is the smallest difference of interest, by default 0.03 for times and 0.001 for AUC. Raises
    InputError if a path holds no results, or if `base` holds several sets. Raises InputError also if one of `news`
    differs from `base` in benchmark, target, dataset or division.
    """
    first, others = results_to_compare(Path(base), [Path(path) for path in news])
    context = context_of([first, *others])
    compared = compare_results(first, others, min_effect=min_effect, confidence=confidence, context=context)
    if refused := refused_words(compared):
        raise InputError(refused)
    return make_frame(COMPARISON_COLUMNS, comparison_rows(comparison_document(compared)))


def read_scores(*files: str | Path) -> pd.DataFrame:
    """Return a data frame made from files of `score --format json`: a row per result set, with the columns of `score
    --format csv`.

    Raises InputError if a file cannot be read, or is not what `score` wrote.
    """
    documents = [read_printed(Path(file), "score", ScoreDocument) for file in files]
    return record_frame(ScoreRecord, (record for document in documents for record in document.scores))


def read_comparisons(*files: str | Path) -> pd.DataFrame:
    """Read files of `compare --format json` into the data frame that `frames.compare` returns.

    Raises InputError where a file cannot be read, or is not what `compare` wrote.
    """
    documents = [read_printed(Path(file), "compare", ComparisonDocument) for file in files]
    return make_frame(COMPARISON_COLUMNS, (row for document in documents for row in comparison_rows(document)))
