"""Makes the output of a pair of configurations measured alternately (A/B), as blocks and as a document: both results,
then their comparison."""

from collections.abc import Sequence
from pathlib import Path

from reports.comparison.export import comparison_document
from reports.comparison.records import Comparison, PairDocument
from reports.document.blocks import Block
from reports.results.result import Result
from reports.views.comparison import comparison_blocks
from reports.views.measurement import measured_blocks, measurement_document
from reports.views.score import finished_blocks, finished_document


def pair_blocks(
    sets: Sequence[Result], measured: Sequence[Result], comparisons: Sequence[Comparison], page: Path
) -> tuple[Block, ...]:
    """Return the blocks on two configurations that were measured alternately (A/B): first on the base, then on the
    new configuration, then on their comparison. The two results are in `sets` if they have logs, otherwise in
    `measured`.

    `page` is the HTML page on both results.
    """
    sides = [
        *(block for result in sets for block in finished_blocks(result, *_places(result), page)),
        *(block for found in measured for block in measured_blocks(found, found.path, page)),
    ]
    return (*sides, *comparison_blocks(comparisons, is_brief=True))


def pair_document(
    sets: Sequence[Result],
    measured: Sequence[Result],
    comparisons: Sequence[Comparison],
    folder: Path,
    page: Path,
) -> PairDocument:
    """Return the JSON document of two configurations measured alternately (A/B): the base and the new result, their
    comparison, their folder and the HTML page."""
    return PairDocument(
        folder=str(folder),
        report=str(page),
        scores=tuple(finished_document(result, *_places(result), page) for result in sets),
        measurements=tuple(measurement_document(found, found.path) for found in measured),
        comparisons=comparison_document(comparisons).comparisons,
    )


def _places(result: Result) -> tuple[str, Path]:
    """Return the system's name and the folder of a result set of this harness."""
    assert result.place is not None
    return result.system.name or "", result.place
