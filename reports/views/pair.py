"""A pair that was just completed: both sides, then what their difference is; as blocks, and as values."""

from collections.abc import Sequence
from pathlib import Path

from reports.comparison.export import comparison_document
from reports.comparison.records import Comparison
from reports.document.blocks import Block
from reports.facts.facts import SetFacts
from reports.facts.measured_sets import MeasuredSet
from reports.views.comparison import comparison_blocks
from reports.views.measurement import measured_blocks, measurement_document
from reports.views.records import PairDocument
from reports.views.score import finished_blocks, finished_document


def pair_blocks(
    sets: Sequence[SetFacts], measured: Sequence[MeasuredSet], comparisons: Sequence[Comparison], page: Path
) -> tuple[Block, ...]:
    """Show `sets` or what was `measured`, base and new, then new against base; `page` is that of both."""
    sides = [
        *(block for facts in sets for block in finished_blocks(facts, *_places(facts), page)),
        *(block for found in measured for block in measured_blocks(found, _options(found), found.path)),
    ]
    return (*sides, *comparison_blocks(comparisons))


def pair_document(
    sets: Sequence[SetFacts],
    measured: Sequence[MeasuredSet],
    comparisons: Sequence[Comparison],
    folder: Path,
    page: Path,
) -> PairDocument:
    """As `pair_blocks`, with where everything is."""
    return PairDocument(
        folder=str(folder),
        report=str(page),
        scores=tuple(finished_document(facts, *_places(facts), page) for facts in sets),
        measurements=tuple(measurement_document(found, _options(found), found.path) for found in measured),
        comparisons=comparison_document(comparisons).comparisons,
    )


def _places(facts: SetFacts) -> tuple[str, Path]:
    """The system and the folder of a set of this harness."""
    assert facts.result_set.root is not None
    return facts.result_set.system or "", facts.result_set.root


def _options(found: MeasuredSet) -> dict[str, int]:
    """What was asked of the kind, where the set's record says it."""
    return dict(found.run_set.options) if found.run_set else {}
