"""Makes the section on a machine's speed relative to reference systems that measured the same configuration."""

from collections.abc import Sequence

from reports.charts.runs import Quantity, Strip, StripDot, strips_figure
from reports.comparison.standing import TOLERANCE, Standing, find_standings
from reports.document.blocks import Block, Chart, Prose, table_of
from reports.document.page import PageSection
from reports.results.result import Result

HEADING = "Where this machine stands"
_WORDS = {
    "dot-counted": "samples/s of this machine over the system's",
    "band": "possible drift between machines and hours: no difference is shown within",
}


def standing_section(group: Sequence[Result], id_: str) -> PageSection | None:
    """Return the section that compares a group's only set with reference systems; None if the group has several sets,
    or no reference system measured the same configuration."""
    standings = find_standings(group[0]) if len(group) == 1 else ()
    if not standings:
        return None
    return PageSection(
        id=f"{id_}-standing",
        heading=HEADING,
        name="Standing",
        blocks=standing_blocks(standings, f"{id_}-standing-chart"),
    )


def standing_blocks(standings: Sequence[Standing], id_: str) -> tuple[Block, ...]:
    """Return a sentence on a set's speed against each reference system, and one strip chart of all ratios."""
    strips = [
        Strip(
            name=standing.system,
            hue=0,
            dots=() if standing.ratio is None else (StripDot(label="", value=standing.ratio),),
            mean=None,
            low=1 / (1 + TOLERANCE),
            high=1 + TOLERANCE,
        )
        for standing in standings
    ]
    lead = " ".join(f"This machine: {standing.words}." for standing in standings)
    figure = strips_figure(
        strips,
        Quantity(name="samples/s of this machine over the system's"),
        _WORDS,
        id_=id_,
        title=HEADING,
        description=f"One row per system. {lead}",
    )
    columns = (("System", "system"), ("What it is", "machine"), ("This machine", lambda each: _told(each)))
    caption = "Reference systems that measured the same configuration"
    table = table_of(standings, columns, id_=f"{id_}-table", caption=caption)
    note = (
        "This machine and a reference system were measured hours or months apart, so a difference within the "
        "tolerance may be drift, and counts as none."
    )
    return (Chart(figure=figure, lead=lead, table=table), Prose(text=note, kind="note"))


def _told(standing: Standing) -> str:
    return standing.told if standing.ratio is None else f"{standing.told}: {standing.ratio:.2f} times"
