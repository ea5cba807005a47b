"""Makes the section that ranks results among published results of MLPerf's rounds: by minutes, and by
accelerator-minutes."""

from collections.abc import Callable, Sequence

from reports.charts.runs import Quantity, Strip, StripDot, strips_figure
from reports.comparison.among_published import ResultPlace, place_results
from reports.document.blocks import Block, Chart, Prose, table_of
from reports.document.glossary import footnotes, registered
from reports.document.page import PageSection
from reports.parts.published import ON_PAGE
from reports.results.result import Result
from reports.text.formatting import printable
from rules.records.kept.published import PublishedResult, PublishedTable

HEADING = "Where it would stand among published results"
_WORDS = {"dot-counted": "a published result", "mean": "this result"}


def published_section(group: Sequence[Result], table: PublishedTable | None, id_: str) -> PageSection | None:
    """Return the section that ranks a group's results among published MLPerf results; None if `table`, the table of
    published results, is None. Raises ReferenceSystemError if a benchmark is not MLPerf's."""
    if table is None:
        return None
    placed = place_results(group, table)
    blocks: list[Block] = [Prose(text=registered(" ".join(each.words for each in placed)))]
    blocks += _charts([each for each in placed if each.minutes is not None], f"{id_}-published")
    others = {id(row): row for each in placed for row in each.others}
    if others:
        caption = "Published results of the benchmark, as computed here from their logs"
        blocks.append(table_of(others.values(), ON_PAGE, id_=f"{id_}-published-table", caption=caption))
    notes = footnotes([*(result.standing for result in group), "published"])
    blocks.append(Prose(text=" ".join(notes), kind="note"))
    return PageSection(id=f"{id_}-published", heading=HEADING, name="Published", blocks=tuple(blocks))


def _charts(placed: Sequence[ResultPlace], id_: str) -> list[Chart]:
    """Return strip charts of each result among published ones: by minutes, and by accelerator-minutes where those are
    known."""
    minutes = [_strip(each, each.minutes.value, _minutes) for each in placed if each.minutes is not None]
    products = [
        _strip(each, each.accelerator_minutes.value, _accelerator_minutes)
        for each in placed
        if each.accelerator_minutes is not None
    ]
    return [
        _chart(strips, name, f"{id_}-{key}")
        for strips, name, key in (
            (minutes, "time to train, minutes", "minutes"),
            (products, "accelerator-minutes, derived", "accelerators"),
        )
        if strips
    ]


def _minutes(row: PublishedResult) -> float | None:
    return row.minutes


def _accelerator_minutes(row: PublishedResult) -> float | None:
    return row.minutes * row.num_accelerators if row.num_accelerators else None


def _strip(each: ResultPlace, value: float, of: Callable[[PublishedResult], float | None]) -> Strip:
    dots = (
        StripDot(label="", value=found, hint=f"{row.submitter}, {row.system}, round {row.round}: {found:.3g}")
        for row in each.others
        if (found := of(row)) is not None
    )
    mark = " (unverified)" if each.result.standing == "unverified" else ""
    label = f"{value:.3g}{mark}"
    return Strip(
        name=printable(each.result.label, 80),
        hue=0,
        dots=tuple(dots),
        mean=value,
        mean_label=label,
        low=None,
        high=None,
    )


def _chart(strips: Sequence[Strip], name: str, id_: str) -> Chart:
    figure = strips_figure(
        strips, Quantity(name=name), _WORDS, id_=id_, title=f"{HEADING}: {name}", description="One row per result."
    )
    return Chart(figure=figure, heading=name)
