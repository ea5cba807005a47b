"""Parts of the page: groups of comparable results, sections, head and foot."""

from dataclasses import dataclass

from markupsafe import Markup

from reports.document.blocks import Block, Fact
from rules.checks.verdict import VerdictOutcome


@dataclass(frozen=True, kw_only=True, slots=True)
class Badge:
    """A verdict as icon and word, so that it never depends on colour alone."""

    kind: VerdictOutcome
    icon: str
    word: str
    words: str


@dataclass(frozen=True, kw_only=True, slots=True)
class PageSection:
    """One part of a group: `name` is its entry in the list of parts."""

    id: str
    heading: str
    name: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupView:
    """Configurations of one problem, which may share a table; different problems are in different tables."""

    id: str
    heading: str
    status_line: str
    has_several: bool
    sections: tuple[PageSection, ...]
    finding: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class PageView:
    """The whole page."""

    title: str
    dek: str
    badges: tuple[Badge, ...]
    tags: tuple[str, ...]
    eyebrow: str
    """Kind of page, above the title."""
    groups: tuple[GroupView, ...]
    glossary: tuple[Fact, ...]
    rules: tuple[Fact, ...]
    footnotes: tuple[str, ...]
    colophon: str
    data: Markup
    head: tuple[Fact, ...] = ()
    """Machine, date, command, code, what differs, noise and the next command, in this order."""
    is_brief: bool = False
    """Whether the page is a summary for a decision, on one sheet."""
    sweeps: tuple[PageSection, ...] = ()
    others: tuple[PageSection, ...] = ()
    """Sections of profiles and studies."""
