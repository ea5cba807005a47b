"""Defines additional presentation of results: what one kind of measurement (such as throughput) or of study (tables
of computed or measured numbers) shows beyond the common parts of output. Everything in it is optional.

Without it, a kind of measurement still has tables, charts of every process, comparisons, pages and files. For these,
its record type is enough: its `Measure` describes the compared quantity. Additional presentation is the constant
DETAILS of a module named after the kind. The module is in this package or in an extension.
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
    """Additional presentation of one kind of measurement, such as throughput, or of study (tables of computed or
    measured numbers). Members are functions or values that a page or a terminal uses.

    For measurements:

    - `lines` makes a result's named values for a terminal.
    - `columns` are columns of a page's table of results, placed after the compared quantity.
    - `hidden` names recorded quantities whose means get no column of their own.
    - `blocks` makes the blocks below the table, with ids that begin with the given id.
    - `answer` makes the title of a page whose results are all of this kind.
    - `following` suggests the comparison to make after a single result: it returns the options of the command
      `versus` and the purpose, or None if there is nothing to compare.

    For studies:

    - `chart` draws a table of the study, with the given id.
    - `modelled` names the devices that the study models, which may differ from the machine that computed it; '' if it
      names none.
    - `num_leading` is the number of findings that stand before the first chart and table; None for all.
    - `is_answer` states that the study answers the question for which the page's other results were measured. The
      page then has the study's title, and the study's sections come first.

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
    """Return the additional presentation of a kind of measurement (such as throughput) or of study (computed or
    measured tables); NO_DETAILS for a kind that has none."""
    if kind in (places := find_places("shown")):
        found = load_place(places[kind])
    elif kind in {module.name for module in iter_modules(reports.kinds.__path__)}:
        found = getattr(import_module(f"reports.kinds.{kind}"), "DETAILS", NO_DETAILS)
    else:
        return NO_DETAILS
    assert isinstance(found, Details)
    return found


def own_blocks(results: Sequence[Result], id_: str) -> list[Block]:
    """Return the blocks (tables, charts) that the kinds of measurement among `results` add to a page."""
    made: list[Block] = []
    for kind in dict.fromkeys(result.kind for result in results):
        if (blocks := details_of(kind).blocks) is not None:
            made += blocks([result for result in results if result.kind == kind], id_)
    return made
