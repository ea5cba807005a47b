"""What extensions add to tests of the core: `tests/extensions/<name>/seams.py` names it, and nothing here names them.

READING has, by verb, the command line of a verb that reads results: {place} is what it reads, {out} a new folder.
"""

import runpy
from collections.abc import Mapping
from typing import Any

from places import TESTS


def find_seams(name: str) -> dict[str, Any]:
    """Join what extensions have under a name, each in the seams.py of its tests, if there is one."""
    found: dict[str, Any] = {}
    for path in sorted((TESTS / "extensions").glob("*/seams.py")):
        found |= runpy.run_path(str(path)).get(name, {})
    return found


READING: Mapping[str, str] = find_seams("READING")


def reading(verb: str, place: object, out: object) -> list[str]:
    """Return the command line of an extension's verb that reads results."""
    return [word.format(place=place, out=out) for word in READING[verb].split()]
