"""Every verb in a working folder whose names are taken: nothing is written outside, and nothing waited for.

The verbs are those of the registry: a new one needs a command line in WORDS, its own or its extension's.
"""

import os
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

import pytest
from hostile_folders import KINDS, Walk, all_words, begin_walk, walk_halves, walk_names

from harness.cli import COMMANDS

QUICK = ("run", "resume", "report", "check", "data generate", "init")
"""Command lines that `make test` walks; all others are left to `make test-all`."""
REFUSED = {"data predict"}
"""What refuses the weights of scripted runs, which are of no model; all that it writes is what -o names."""
WALKED = [pytest.param(what, marks=[pytest.mark.slow] * (what not in QUICK)) for what in all_words()]


def test_every_verb_is_walked() -> None:
    assert {what.split()[0] for what in all_words()} == {*COMMANDS}


def skip_where_not_root(kind: str) -> None:
    if kind == "of another user" and os.getuid() != 0:
        pytest.skip("only root can give a file to another user")


@pytest.mark.parametrize("what", WALKED)
def test_nothing_is_written_through_links_of_a_working_folder(what: str, data_root: Path, tmp_path: Path) -> None:
    walk = begin_walk(what, data_root, tmp_path)
    assert walk.ended.code in ((2,) if what in REFUSED else (0, 3)), walk.ended.err
    top = [name for name in walk.names if len(name.parts) == 1]
    walk_names(walk, top, "link", data_root, tmp_path)


@pytest.fixture(scope="module")
def walk_of(data_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Walk]:
    """Begin the walk of a command line once for all kinds of names that are taken."""
    return cache(lambda what: begin_walk(what, data_root, tmp_path_factory.mktemp("walk")))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("what", all_words())
def test_names_that_are_taken_end_no_command_unexplained(
    what: str, kind: str, walk_of: Callable[[str], Walk], data_root: Path, tmp_path: Path
) -> None:
    """All names of one depth at once; of links, those that are refused also in halves and quarters."""
    skip_where_not_root(kind)
    walk = walk_of(what)
    for names in by_depth(walk):
        walk_halves(walk, names, kind, data_root, tmp_path, times=2 if kind == "link" else 0)


@pytest.mark.long
@pytest.mark.parametrize("what", all_words())
def test_links_that_are_refused_are_tried_each_alone(what: str, data_root: Path, tmp_path: Path) -> None:
    walk = begin_walk(what, data_root, tmp_path)
    for names in by_depth(walk):
        walk_halves(walk, names, "link", data_root, tmp_path, times=len(names))


def by_depth(walk: Walk) -> Iterable[list[Path]]:
    """The names of each depth, the outermost first."""
    levels = defaultdict[int, list[Path]](list)
    for name in walk.names:
        levels[len(name.parts)].append(name)
    return levels.values()
