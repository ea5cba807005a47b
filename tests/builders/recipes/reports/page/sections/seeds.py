"""The seed of every run."""

from collections.abc import Sequence

from reports.document.blocks import numeric, text_table
from reports.document.page import PageSection
from reports.results.result import Result


def seeds_section(group: Sequence[Result], id_: str) -> PageSection | None:
    """None where no log gives a seed."""
    runs = [(one.label, run.label, run.log.seed) for one in group for run in one.runs]
    rows = [row for row in runs if row[2] is not None]
    table = text_table(("Configuration", "Run", numeric("Seed")), rows, caption="The seeds", id_=f"{id_}-seed-table")
    return PageSection(id=f"{id_}-seeds", heading="Seeds", name="Seeds", blocks=(table,)) if rows else None
