"""Makes the output on published MLPerf results as blocks: their table, and the rank of results among them, for a
terminal."""

from collections.abc import Sequence

from reports.charts.text_strip import draw_strip
from reports.comparison.among_published import ResultPlace
from reports.document.blocks import Block, Bullets, Prose, table_of
from reports.document.glossary import FOOTNOTE_PUBLISHED, TRADEMARK, footnotes, registered
from reports.parts.published import COLUMNS
from rules.records.kept.published import PublishedTable


def published_blocks(table: PublishedTable) -> tuple[Block, ...]:
    """Return a table with one row per published MLPerf result, and the notes that MLCommons' guidelines ask for."""
    if not table.results:
        return (Prose(text="The table has no result."),)
    lead = (
        f"{len(table.results)} results of MLPerf® rounds: minutes are computed here from the logs, normalised by "
        "reference convergence points."
    )
    return (
        Prose(text=lead),
        table_of(table.results, COLUMNS, id_="published"),
        Prose(text=f"{FOOTNOTE_PUBLISHED} {TRADEMARK}", kind="note"),
    )


def among_blocks(placed: Sequence[ResultPlace]) -> tuple[Block, ...]:
    """Return each result's rank among published ones as a sentence and a text chart, and the notes that MLCommons'
    messaging guidelines ask for."""
    lines = [line for each in placed for line in (each.words, *_strips(each))]
    notes = footnotes([*(each.result.standing for each in placed), "published"])
    return (Bullets(items=tuple(map(registered, lines)), kind="list"), Prose(text=" ".join(notes), kind="note"))


def _strips(each: ResultPlace) -> list[str]:
    """Return text charts of a result's place among published MLPerf results, by minutes and by
    accelerator-minutes."""
    places = (("minutes", each.minutes), ("accelerator-minutes", each.accelerator_minutes))
    return [
        f"{name}: {draw_strip(place.value, place.others, '{:.3g}'.format)}"
        for name, place in places
        if place is not None
    ]
