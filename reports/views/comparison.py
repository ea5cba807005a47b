"""Comparisons as blocks: the sentence first, then the factors, then what was different."""

from collections.abc import Sequence

from msgspec.structs import astuple

from reports.comparison.export import FACTOR_COLUMNS, factor_cells, mean_words, method_line, remarks
from reports.comparison.records import Comparison
from reports.comparison.wording import sentence
from reports.document.blocks import Block, Bullets, Heading, Part, Prose, text_table
from reports.text.formatting import percent

_MAX_CHANGES = 12


def comparison_blocks(comparisons: Sequence[Comparison], *, is_brief: bool = False) -> tuple[Block, ...]:
    """Every comparison, then how all of them were judged; if `is_brief`, where that is said."""
    blocks = [block for comparison in comparisons for block in _comparison(comparison)]
    line = method_line(comparisons)
    if line and is_brief:
        line = (
            f"Intervals are of {percent(comparisons[0].confidence)}. 'compare --verbose' and the page say how they "
            "and the verdicts are made."
        )
    return (*blocks, Prose(text=line)) if line else tuple(blocks)


def _comparison(comparison: Comparison) -> list[Block]:
    kind: str = "refused" if comparison.refusal is not None else comparison.verdict
    word = kind.upper()
    if comparison.invalid_sides:
        word, kind = f"INVALID ({' and '.join(comparison.invalid_sides)}), {kind}", "invalid"
    heading = Heading(word=word, kind=kind, text=f"{comparison.new} against {comparison.base}")
    blocks: list[Block] = [Part(heading=heading, blocks=(Prose(text=sentence(comparison)),))]
    if comparison.refusal is not None:
        return blocks
    factors = [factor_cells(factor) for factor in comparison.factors]
    blocks.append(text_table(FACTOR_COLUMNS, factors, numbers=("base", "new"), caption=mean_words(comparison)))
    if comparison.changes:
        blocks.append(text_table(("differs", "base", "new"), map(astuple, comparison.changes[:_MAX_CHANGES])))
        if (num_hidden := len(comparison.changes) - _MAX_CHANGES) > 0:
            blocks.append(Prose(text=f"and {num_hidden} more; 'dlrmbench diff' lists all."))
    if said := remarks(comparison):
        blocks.append(Bullets(items=said))
    return blocks
