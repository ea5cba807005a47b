"""Decides how much a page of many configurations shows: a table row for each, and details (runs, curves, commands)
for the first configurations and the INVALID ones."""

from collections.abc import Sequence

from reports.document.blocks import portions
from reports.results.result import Result
from reports.text.formatting import plural

MOST_WHOLE = 24
"""Largest number of configurations for which a page shows the details (runs, curves, commands) of all."""
MOST_DETAILED = 12
"""Number of configurations, from the first on, that are shown with details on a page of more than MOST_WHOLE
configurations; INVALID configurations are always shown with details."""


def detailed(group: Sequence[Result]) -> tuple[Result, ...]:
    """Return the results whose runs, curves and commands a page shows, in the order of the group."""
    if len(group) <= MOST_WHOLE:
        return tuple(group)
    first, others = group[:MOST_DETAILED], group[MOST_DETAILED:]
    return (*first, *(result for result in others if result.outcome == "invalid"))


def detailed_parts(group: Sequence[Result]) -> list[tuple[str, Sequence[Result]]]:
    """Return the results that are shown in detail, divided into parts small enough for one drawing, each with its
    name, such as 'Configurations 1 to 12'."""
    if len(group) <= MOST_WHOLE:
        return [("Configurations", group)]
    shown = detailed(group)
    others = portions(shown[MOST_DETAILED:], MOST_WHOLE)
    return [
        (f"Configurations 1 to {MOST_DETAILED}", shown[:MOST_DETAILED]),
        *((f"INVALID configurations after these: {words}", part) for words, part in others),
    ]


def detail_words(group: Sequence[Result]) -> str:
    """Return in words for which configurations the page shows details; '' where it shows those of all."""
    shown = detailed(group)
    if len(shown) == len(group):
        return ""
    more = len(shown) - MOST_DETAILED
    also = f" and for {plural(more, 'INVALID one')} after them" if more else ""
    return f"Details are shown for the first {MOST_DETAILED} configurations{also}."


def detail_note(group: Sequence[Result]) -> str:
    """Return a sentence that says of which configurations the page leaves out details (runs, curves, commands) and
    where to find these; '' where the page has the details of all."""
    if not detail_words(group):
        return ""
    return (
        f"Each of {len(group):,} configurations has its row. Runs, curves, factors and commands are shown for the "
        f"first {MOST_DETAILED} and for every INVALID one. 'dlrmbench report PATH --format json' has runs and "
        "evaluations of all, 'dlrmbench compare BASE NEW' the factors of any two, and 'dlrmbench report' with the "
        "path of one set makes a page with all details of that set."
    )
