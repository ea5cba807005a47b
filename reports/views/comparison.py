"""Makes the output of comparisons as blocks: a sentence with the verdict first, then the factors of the time to train
(such as throughput), then the settings that differ."""

from collections.abc import Sequence

from msgspec.structs import astuple

from reports.comparison.comparability import PROCESSOR
from reports.comparison.export import FACTOR_COLUMNS, factor_cells, mean_words, method_line, remarks
from reports.comparison.records import Comparison
from reports.comparison.wording import sentence
from reports.document.blocks import Block, Bullets, Heading, Part, Prose, text_table
from reports.results.records import THREADS_TIMED
from reports.text.formatting import MISSING, names, percent

_MAX_CHANGES, _MAX_UNLIKE = 12, 5


def comparison_blocks(comparisons: Sequence[Comparison], *, is_brief: bool = False) -> tuple[Block, ...]:
    """Return blocks of every comparison, then the statistical method behind the verdicts. If `is_brief`, the method
    is reduced to the confidence level and a sentence that says where intervals and verdicts are explained."""
    blocks = [block for comparison in comparisons for block in _comparison(comparison)]
    line = method_line(comparisons)
    if line and is_brief:
        line = (
            f"Intervals: {percent(comparisons[0].confidence)} confidence. 'compare --verbose' and the page explain "
            "intervals and verdicts."
        )
    return (*blocks, Prose(text=line)) if line else tuple(blocks)


def _unlike_words(comparison: Comparison) -> str:
    """Return in a sentence how the systems of two compared results differ; '' if both were measured on one system.

    An example is 'Two systems, unlike in processor (A, new: B), train.global_batch_size (512, new: 1024).'
    """
    if not comparison.is_cross_system:
        return ""
    told = [each for each in comparison.changes if each.name == PROCESSOR or "." in each.name]  # SECTION.KEY
    told = [each for each in told if each.name != THREADS_TIMED]
    words = names([f"{each.name} ({each.base or MISSING}, new: {each.new or MISSING})" for each in told], _MAX_UNLIKE)
    return f"Two systems, unlike in {words}." if words else ""


def _comparison(comparison: Comparison) -> list[Block]:
    kind: str = "refused" if comparison.refusal is not None else comparison.verdict
    word = kind.upper()
    if comparison.invalid_sides:
        word, kind = f"INVALID ({' and '.join(comparison.invalid_sides)}), {kind}", "invalid"
    heading = Heading(word=word, kind=kind, text=f"{comparison.new} against {comparison.base}")
    unlike = _unlike_words(comparison)
    answer = (*([Prose(text=unlike)] if unlike else []), Prose(text=sentence(comparison)))
    blocks: list[Block] = [Part(heading=heading, blocks=answer)]
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
