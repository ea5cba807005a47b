"""What a kind shows of its own beside what every kind shows: all of it is optional.

The record of a kind of measurement and its `Measure` are enough for a table, a chart of every process, comparisons,
a page and files. A kind that has more to say says it in a module here of its own name, or of its extension: DETAILS.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

import reports.kinds
from reports.document.blocks import Block, Chart, Shown
from reports.results.result import Result
from rules.extensions import find_places, load_place
from rules.records.study import StudyRecord, StudyTable

Lines = Sequence[tuple[str, str]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Details:
    """Everything that one kind shows of its own.

    `lines` are facts of one result for a terminal. `columns` are shown beside what is compared, in a page's table of
    several results, in place of the means of what is recorded beside it. `blocks` are shown below it, their ids
    beginning as given; `hidden` are the members that the table need not have then. `answer` is the title of a page
    that shows nothing but this kind. `terms` explain its words, by word. `chart` draws a table of a study, with the
    id that is given. `modelled` names the devices that a study is of where they are not the host's; it is empty where
    the study does not say them. A study that `is_answer` says what the results beside it were measured for: its title
    is that of their page, and its sections come first.
    """

    lines: Callable[[Result], Lines] | None = None
    columns: Sequence[Shown[Result]] = ()
    blocks: Callable[[Sequence[Result], str], Sequence[Block]] | None = None
    hidden: Collection[str] = ()
    answer: Callable[[Sequence[Result]], str] | None = None
    terms: Mapping[str, str] = field(default_factory=dict)
    chart: Callable[[StudyRecord, StudyTable, str], Chart | None] | None = None
    modelled: Callable[[StudyRecord], str] | None = None
    is_answer: bool = False


NO_DETAILS = Details()


@cache
def details_of(kind: str) -> Details:
    """Return what a kind of measurement or of study shows of its own; NO_DETAILS where nothing says it."""
    if kind in (places := find_places("shown")):
        found = load_place(places[kind])
    elif kind in {module.name for module in iter_modules(reports.kinds.__path__)}:
        found = getattr(import_module(f"reports.kinds.{kind}"), "DETAILS", NO_DETAILS)
    else:
        return NO_DETAILS
    assert isinstance(found, Details)
    return found


def own_blocks(results: Sequence[Result], id_: str) -> list[Block]:
    """Return the blocks that the kinds of results show of their own."""
    made: list[Block] = []
    for kind in dict.fromkeys(result.kind for result in results):
        if (blocks := details_of(kind).blocks) is not None:
            made += blocks([result for result in results if result.kind == kind], id_)
    return made
