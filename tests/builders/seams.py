"""What extensions add to tests of the core: `tests/extensions/<name>/seams.py` names it, and nothing here names them.

READING has, by verb, the command line of a verb that reads results: {place} is what it reads, {out} a new folder.
WAYS has options that such a verb may be given besides. PAGES has, by the name of a page that is written where nobody
names one, the command line that writes it of the folder results; HOSTILE_PAGES, as module:name, functions that write
a page whose every text is hostile.
"""

import runpy
from collections.abc import Mapping, Sequence
from typing import Any

from places import TESTS


def find_seams(name: str) -> dict[str, Any]:
    """Join what extensions have under a name, each in the seams.py of its tests, if there is one."""
    found: dict[str, Any] = {}
    for path in sorted((TESTS / "extensions").glob("*/seams.py")):
        found |= runpy.run_path(str(path)).get(name, {})
    return found


READING: Mapping[str, str] = find_seams("READING")
WAYS: Mapping[str, Sequence[str]] = find_seams("WAYS")


def reading(verb: str, place: object, out: object, more: str = "") -> list[str]:
    """Return the command line of an extension's verb that reads results, with more options of WAYS."""
    return [word.format(place=place, out=out) for word in (*READING[verb].split(), *more.split())]
