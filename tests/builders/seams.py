"""What extensions add to tests of the core: `tests/extensions/<name>/seams.py` names it, and nothing here names them.

READING has, by verb, the command line of a verb that reads results: {place} is what it reads, {out} a new folder.
WAYS has options that such a verb may be given besides.
TRAINING has that of a verb that trains a {benchmark}.
PAGES has, by the name of a page that is written where nobody names one, the command line that writes it of the folder
results; HOSTILE_PAGES has functions, as module:name, that write a page whose every text is hostile.
MEASURING has command lines of verbs that measure, MEASURED_SLOWLY those that take long, and MEASURING_NOTHING the
other verbs, both with why: `measuring`.
SHOWN_PAGES has, by the name of a command line of WORDS, the subject of the title of the page that it writes, and a
pattern of its answer.
WORDS has command lines of every verb, as `hostile_folders` has them, and FILES what they are given.
RECORDS has, by the type of a record, what makes one, both as module:name.
FILE_WORDS has command lines that are given what is no file, as `hostile_files` has them, FILE_KEYS the text of
asked.toml that names it, FILE_LINES a line of dlrm_tiny's definition and what takes its place there.
KILLED has commands that are killed at every write, after what was there before.
STAND_INS has, by what scripted commands replace, what takes its place, both as module:name.
"""

import runpy
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from places import TESTS

from rules.extensions import EXTENSIONS


def find_files(name: str) -> list[Path]:
    """Return the file of that name in the tests of each extension that has one and is there itself."""
    return [path for extension in EXTENSIONS if (path := TESTS / "extensions" / extension / name).is_file()]


def put_builders_on_path() -> None:
    """Make builders of extensions modules as those of the core are."""
    folders = [str(TESTS / "extensions" / extension / "builders") for extension in EXTENSIONS]
    sys.path += [folder for folder in folders if folder not in sys.path]


def find_seams(name: str) -> dict[str, Any]:
    """Join what extensions have under a name, each in the seams.py of its tests, if there is one."""
    found: dict[str, Any] = {}
    put_builders_on_path()
    for path in find_files("seams.py"):
        found |= runpy.run_path(str(path)).get(name, {})
    return found


READING: Mapping[str, str] = find_seams("READING")
WAYS: Mapping[str, Sequence[str]] = find_seams("WAYS")
TRAINING: Mapping[str, str] = find_seams("TRAINING")


def reading(verb: str, place: object, out: object, more: str = "") -> list[str]:
    """Return the command line of an extension's verb that reads results, with more options of WAYS."""
    return [word.format(place=place, out=out) for word in (*READING[verb].split(), *more.split())]


def training(verb: str, benchmark: object) -> list[str]:
    """Return the command line of an extension's verb that trains a benchmark."""
    return [word.format(benchmark=benchmark) for word in TRAINING[verb].split()]
