"""Defines the parts of the HTML page: groups of comparable results, their sections, head and foot."""

from dataclasses import dataclass

from markupsafe import Markup

from reports.document.blocks import Block, Fact
from rules.checks.verdict import VerdictOutcome


@dataclass(frozen=True, kw_only=True, slots=True)
class Badge:
    """Verdict as an icon and a word, so that it never depends on colour alone."""

    kind: VerdictOutcome
    icon: str
    word: str
    words: str


@dataclass(frozen=True, kw_only=True, slots=True)
class PageSection:
    """Section of a group of results on the page; `name` is its entry in the list of sections."""

    id: str
    heading: str
    name: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupView:
    """Group of comparable results (runs of one benchmark to one target, or measurements of one quantity), which share
    tables; results that are not comparable are in different groups."""

    id: str
    heading: str
    status_line: str
    has_several: bool
    sections: tuple[PageSection, ...]
    finding: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class PageView:
    """Contents of the whole HTML page, every string ready to print."""

    title: str
    dek: str
    badges: tuple[Badge, ...]
    tags: tuple[str, ...]
    eyebrow: str
    """Kind of page, such as 'training to a quality target' or 'a profile', printed above the title."""
    groups: tuple[GroupView, ...]
    glossary: tuple[Fact, ...]
    rules: tuple[Fact, ...]
    footnotes: tuple[str, ...]
    colophon: str
    data: Markup
    head: tuple[Fact, ...] = ()
    """Rows of the page's head, in this order: machine, date, command, code, differences between configurations,
    noise, and the command to run next."""
    is_brief: bool = False
    """Whether the page is a summary on one sheet of paper, on which to base a decision (`report --summary`)."""
    sweeps: tuple[PageSection, ...] = ()
    others: tuple[PageSection, ...] = ()
    """Sections on profiles and studies (tables of computed or measured numbers without a training run to a target),
    which belong to no group of results."""
