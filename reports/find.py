"""A configuration by what a reader calls it."""

from collections.abc import Sequence
from difflib import get_close_matches

from reports.facts import SetFacts
from reports.formatting import printable
from rules.errors import InputError


def find_by_label(sets: Sequence[SetFacts], name: str, option: str) -> SetFacts:
    """The set of that label, or whose label is the only one that holds it, in upper or lower case.

    Raises InputError, which names the `option`, where none or several are meant.
    """
    wanted = name.casefold()
    exact = [one for one in sets if one.label == name] or [one for one in sets if one.label.casefold() == wanted]
    found = exact or [one for one in sets if wanted in one.label.casefold()]
    if len(found) == 1:
        return found[0]
    labels = [one.label for one in sets]
    close = get_close_matches(name, labels, n=1)
    meant = f" Did you mean {close[0]!r}?" if close and not found else ""
    why = "is no configuration here" if not found else "fits several configurations"
    known = ", ".join(labels[:8]) + (f" and {len(labels) - 8} more" if len(labels) > 8 else "")
    raise InputError(f"{option} {printable(name)}: {why}.{meant} There are: {known}.")
