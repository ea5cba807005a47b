"""Defines what a kind of measurement or study may show in addition to the common parts of output; all of it is
optional.

To be shown in a table, a chart of every process, comparisons, a page and files, a kind of measurement needs only its
record type, whose `Measure` describes the compared quantity. Further presentation is the constant DETAILS of a module
in this package that is named after the kind, or of an extension.
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
    """Additional presentation of one kind of measurement or study.

    For measurements: `lines` makes a result's named values for a terminal. `columns` follow the compared quantity in
    a page's table of results, in place of the means of the other recorded quantities; of these, `hidden` are left
    out. `blocks` makes the blocks below the table, with ids that begin with the given id. `answer` makes the title of
    a page that has only this kind. `following` returns the options of `versus` for the comparison to make next after
    a single result, and its purpose; None where there is none to make.

    For studies: `chart` draws a table of the study, with the given id. `modelled` names the devices that the study
    models in place of those of the machine that computed it; '' where the study does not name them. The first
    `num_leading` findings of the study stand before its first chart and table, the others below; if None, all stand
    before. With `is_answer`, the other results on the page were measured for the study: its title becomes that of the
    page, and its sections come first.

    `terms` are entries of the glossary.
    """

    lines: Callable[[Result], Lines] | None = None
    columns: Sequence[Shown[Result]] = ()
    blocks: Callable[[Sequence[Result], str], Sequence[Block]] | None = None
    hidden: Collection[str] = ()
    answer: Callable[[Sequence[Result]], str] | None = None
    terms: Mapping[str, str] = field(default_factory=dict)
    chart: Callable[[StudyRecord, StudyTable, str], Chart | None] | None = None
    modelled: Callable[[StudyRecord], str] | None = None
    num_leading: int | None = None
    following: Callable[[Result], tuple[Sequence[str], str] | None] | None = None
    is_answer: bool = False


NO_DETAILS = Details()


@cache
def details_of(kind: str) -> Details:
    """Return the additional presentation of a kind of measurement (such as throughput) or study; NO_DETAILS where it
    has none."""
    if kind in (places := find_places("shown")):
        found = load_place(places[kind])
    elif kind in {module.name for module in iter_modules(reports.kinds.__path__)}:
        found = getattr(import_module(f"reports.kinds.{kind}"), "DETAILS", NO_DETAILS)
    else:
        return NO_DETAILS
    assert isinstance(found, Details)
    return found


def own_blocks(results: Sequence[Result], id_: str) -> list[Block]:
    """Return the additional blocks (tables, charts) of a page for each kind of measurement among some results."""
    made: list[Block] = []
    for kind in dict.fromkeys(result.kind for result in results):
        if (blocks := details_of(kind).blocks) is not None:
            made += blocks([result for result in results if result.kind == kind], id_)
    return made
