"""What is no file, wherever a file may be named: refused by a documented code, within bounds, never waited for."""

from pathlib import Path

import click
import pytest
from command import Command
from hostile_files import (
    KINDS,
    all_asked,
    asked_in,
    cases,
    clean,
    commands,
    make_file,
    place_of,
    run_hostile,
    texts_of,
    words_with,
)
from tiers import quick_first

COMMANDS = dict(commands())
OF_RUN = {each.name for each in texts_of("run", COMMANDS["run"]) if isinstance(each, click.Option)}
"""Options that take a word and that other verbs read as `run` does."""


@pytest.fixture(scope="module")
def base(data_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working folder with a set, which is copied for each case."""
    return place_of("report", data_root, tmp_path_factory.mktemp("place"))


@pytest.mark.parametrize("what", quick_first(all_asked(), 8))
def test_files_that_options_and_keys_name_are_regular_and_bounded(what: str, base: Path, tmp_path: Path) -> None:
    for kind in ("pipe", "link to a device", "NUL"):
        here = clean(tmp_path / "here", base)
        words = asked_in(what, kind, here)
        assert words is None or (wrong := run_hostile(words, here)) is None, f"{kind}: {wrong}"


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("what", all_asked())
def test_whatever_is_named_is_refused_or_read(what: str, kind: str, base: Path, tmp_path: Path) -> None:
    here = clean(tmp_path / "here", base)
    words = asked_in(what, kind, here)
    assert words is None or (wrong := run_hostile(words, here)) is None, wrong


@pytest.mark.parametrize(
    "of_run", [pytest.param(False, marks=pytest.mark.slow), pytest.param(True, marks=pytest.mark.long)]
)
@pytest.mark.parametrize("name", COMMANDS)
def test_whatever_an_option_is_given_ends_no_command_unexplained(
    name: str, of_run: bool, data_root: Path, tmp_path: Path
) -> None:
    """Every option and argument of every verb of the registry that takes a word; those of `run` of others apart."""
    base, found = place_of(name, data_root, tmp_path / "place"), list[str]()
    for parameter in texts_of(name, COMMANDS[name]):
        if (name != "run" and parameter.name in OF_RUN) is not of_run:
            continue
        for kind, form in cases():
            here = clean(tmp_path / "here", base)
            if not (value := make_file(kind, form, here)):
                continue
            if (wrong := run_hostile(words_with(name, COMMANDS[name], parameter, value), here)) is not None:
                found.append(f"{parameter.name}, {kind}: {wrong}")
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_number_that_is_not_finite_is_no_value_of_any_option(name: str) -> None:
    """Every option of every verb that takes a number with a point, in a range."""
    for parameter in COMMANDS[name].params:
        for number in ("nan", "inf", "-inf") if isinstance(parameter.type, click.types.FloatRange) else ():
            with pytest.raises(click.BadParameter):
                parameter.type.convert(number, parameter, None)


@pytest.mark.parametrize("words", ["run dlrm_tiny -n", "sweep dlrm_tiny -n", "resume none -n"])
def test_more_runs_than_have_room_for_their_seeds_are_refused(words: str, inside: Command) -> None:
    done = inside(*words.split(), 1 << 63)
    assert done.returncode == 2 and "is not in the range" in done.stderr, done.stderr
