"""The view model: what the page says, every string ready to print.

Templates only place these; they format, choose and compute nothing.
"""

from dataclasses import dataclass
from typing import Literal

from markupsafe import Markup

from reports.charts.figure import Figure


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """One table cell. `sort` is what the column is sorted by (empty sorts last); `kind` is a style class.

    `anchor` is the id of a part of this page that the text leads to.
    """

    text: str
    sort: str = ""
    kind: str = ""
    note: str = ""
    anchor: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Column:
    name: str
    is_number: bool = False
    help: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """A table whose first column names its rows. Numeric columns sort by the number that their text begins with."""

    id: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    is_sortable: bool = False

    @property
    def is_numeric(self) -> bool:
        """Whether all columns but the first hold numbers, so that one class says it for all cells."""
        return len(self.columns) > 1 and all(column.is_number for column in self.columns[1:])


@dataclass(frozen=True, kw_only=True, slots=True)
class Chart:
    """A figure with the sentence it supports and the table of the same facts, or where on the page they stand."""

    figure: Figure
    heading: str
    lead: str
    table: Table | None
    table_note: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Badge:
    """A verdict as icon and word; never colour alone."""

    kind: Literal["valid", "invalid", "incomplete"]
    icon: str
    word: str
    words: str


@dataclass(frozen=True, kw_only=True, slots=True)
class KeyNumber:
    """One large number with what it is and how sure it is."""

    name: str
    value: str
    unit: str
    note: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Fact:
    name: str
    value: str
    note: str = ""
    is_code: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class FindingGroup:
    """All findings of one rule in one set."""

    code: str
    title: str
    severity: str
    icon: str
    citation: str
    times: str
    table: Table


@dataclass(frozen=True, kw_only=True, slots=True)
class Judgement:
    """The rules' findings: groups by rule, the folded rest, and the official checker's opinion beside them."""

    summary: str
    groups: tuple[FindingGroup, ...]
    passed: tuple[Fact, ...]
    passed_summary: str
    skipped: tuple[Fact, ...]
    skipped_summary: str
    opinion: Table | None
    opinion_summary: str


@dataclass(frozen=True, kw_only=True, slots=True)
class SetView:
    """One configuration's part of the page. None means that there is nothing; `missing` says why."""

    id: str
    name: str
    hue: str
    badge: Badge
    headline: str
    tags: tuple[str, ...]
    numbers: tuple[KeyNumber, ...]
    warnings: tuple[str, ...]
    charts: tuple[Chart, ...]
    judgement: Judgement
    runs: Table
    environment: tuple[Fact, ...]
    preflight: Table | None
    system: Table | None
    configuration: Table | None
    reproduce: str
    reproduce_facts: tuple[Fact, ...]
    files: Table
    missing: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupView:
    """Configurations of one problem, which may stand in one table; other problems stand in other tables."""

    id: str
    heading: str
    status_line: str
    table: Table
    charts: tuple[Chart, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class SweepView:
    """One sweep: all its configurations in one table, and each quantity over the axes."""

    id: str
    heading: str
    lead: str
    table: Table
    charts: tuple[Chart, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class PageView:
    """The whole page."""

    title: str
    eyebrow: str
    headline: str
    dek: str
    badges: tuple[Badge, ...]
    groups: tuple[GroupView, ...]
    sets: tuple[SetView, ...]
    glossary: tuple[Fact, ...]
    rules: tuple[Fact, ...]
    footnotes: tuple[str, ...]
    colophon: str
    data: Markup
    sweeps: tuple[SweepView, ...] = ()
