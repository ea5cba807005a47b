"""Makes the section that lists the differences of two configurations, side by side: settings, hardware, software."""

from collections.abc import Sequence

from reports.comparison.comparability import list_changes, list_hardware_changes
from reports.comparison.records import Change
from reports.document.blocks import Block, Fold, Prose, Table, table_of
from reports.document.page import PageSection
from reports.results.provenance import order_in_pair
from reports.results.records import THREADS_TIMED
from reports.results.result import Result
from reports.text.formatting import MISSING, plural, printable

MOST_SHOWN = 12
MOST_DIFFERING = 3
"""Maximum number of differences between two configurations that the head of a page names."""
DIFFERENCES = "Differences"


def differences_section(group: Sequence[Result], id_: str) -> PageSection | None:
    """Return the section that lists the differences of two configurations, settings first; None unless there are
    exactly two."""
    if len(group) != 2:
        return None
    base, new = sorted(group, key=lambda result: order_in_pair(result.place))
    asked = {key for side in (base, new) if side.asked is not None for key in side.asked.config} | {THREADS_TIMED}
    changes = list_changes(base, new)
    settings = [change for change in changes if change.name in asked]
    others = [*list_hardware_changes(base, new), *(change for change in changes if change.name not in asked)]
    rows, labels = (*settings, *others), (printable(base.label, 80), printable(new.label, 80))
    blocks: list[Block] = [_table(rows[:MOST_SHOWN], labels, f"{id_}-differences-table")] if rows else []
    if not rows:
        blocks.append(Prose(text="No recorded value differs: the two sets repeat each other.", kind="note"))
    if len(rows) > MOST_SHOWN:
        more = _table(rows[MOST_SHOWN:], labels, f"{id_}-differences-more")
        blocks.append(Fold(summary=f"{plural(len(rows) - MOST_SHOWN, 'more difference')}", blocks=(more,)))
    return PageSection(id=f"{id_}-differences", heading="What differs", name=DIFFERENCES, blocks=tuple(blocks))


def _table(rows: Sequence[Change], labels: tuple[str, str], id_: str) -> Table:
    base, new = labels
    return table_of(
        rows,
        (
            ("On record", lambda change: printable(change.name, 60)),
            (base, lambda change: _shown(change.base)),
            (new, lambda change: _shown(change.new)),
        ),
        id_=id_,
        caption="What was set, and what was found on the systems, where the two differ",
    )


def _shown(value: str | None) -> str:
    return MISSING if value is None else printable(value, 120)
