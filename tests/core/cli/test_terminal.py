"""What commands say on a terminal of any width: nothing wider than it, and of progress one row a run remains."""

import re
from pathlib import Path

import click
import pytest
from goldens import lay_data
from hostile_folders import all_words, write_inputs
from screen import Terminal, run_on_terminal
from scripted_workers import Moment, ScriptedWorkers

from harness.cli import cli
from harness.foundation import status_line

QUICK = {("run", 80), ("sweep", 60), ("versus", 100)}
CONTEXT = click.Context(cli)
WORDS = {**all_words(), "list of systems": ((), "list --systems")}
"""Command lines of every verb, and of what else prints tables of its own."""
_PRINTS_DOCUMENTS = {"schema", "system", "measure-system"}
_MANY_EVENTS = "run dlrm_tiny -n 2 --threads 1 --seed 5"


def show(what: str, columns: int, data_root: Path, folder: Path, more: str = "", **variables: str) -> Terminal:
    """Run one of the command lines of every verb, with progress, on a terminal; its last one with `more`."""
    before, words = WORDS[what]
    here, moment = lay_data(data_root, folder / "here"), Moment()
    write_inputs(here)
    for each in (*before, words.replace(" -q", "") + more):
        moment.passed_s += 60
        terminal = run_on_terminal(each, here, ScriptedWorkers(moment), columns, variables)
    return terminal


def one_word(row: str) -> bool:
    """Whether a row is a command, or a word such as a path behind its name, which are not broken."""
    words = row.strip(" -('\"`);.,")
    return words.startswith("dlrmbench ") or len(words.split()) <= 2


@pytest.mark.parametrize(
    ("what", "columns"),
    [
        pytest.param(what, columns, marks=[] if (what, columns) in QUICK else [pytest.mark.slow])
        for what in WORDS
        if what not in _PRINTS_DOCUMENTS
        for columns in (60, 80, 100, 200)
    ],
)
def test_nothing_is_wider_than_the_terminal(what: str, columns: int, data_root: Path, tmp_path: Path) -> None:
    terminal = show(what, columns, data_root, tmp_path)
    assert len(terminal.rows()) > 1
    assert [row for row in terminal.broken() if not one_word(row)] == []
    assert [row for row in terminal.rows() if re.match(r"(all|run|process) .*(━|\d%  )", row)] == []


def is_brief(what: str) -> bool:
    """Whether a command line's verb prints more where --verbose is given."""
    return any("--verbose" in each.opts for each in cli.get_command(CONTEXT, what.split()[0]).params)  # type: ignore[union-attr]


@pytest.mark.slow
@pytest.mark.parametrize("columns", [60, 100])
@pytest.mark.parametrize("what", [*filter(is_brief, all_words())])
def test_all_that_was_found_is_no_wider_either(what: str, columns: int, data_root: Path, tmp_path: Path) -> None:
    terminal = show(what, columns, data_root, tmp_path, " --verbose")
    assert len(terminal.rows()) > 1
    assert [row for row in terminal.broken() if not one_word(row)] == []


@pytest.mark.parametrize("columns", [70, 200])
def test_of_each_run_one_row_remains(
    columns: int, data_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = lay_data(data_root, tmp_path / "here")
    monkeypatch.setattr(status_line, "_DRAWN_EVERY_S", 0.0)
    terminal = run_on_terminal(_MANY_EVENTS, here, ScriptedWorkers(Moment(), num_evals=2), columns)
    assert [row for row in terminal.rows() if row.startswith("run ")] == [
        f"run {index} ({index + 1} of 2): target met, AUC 0.91500 after 32,768 samples" for index in (0, 1)
    ]
    assert any("all 2 runs" in row for frame in terminal.frames() for row in frame)
    assert not any("all 2 runs" in row for row in terminal.rows())


def test_no_colour_is_said_to_who_wants_none(data_root: Path, tmp_path: Path) -> None:
    coloured = show("run", 80, data_root, tmp_path / "colours")
    plain = show("run", 80, data_root, tmp_path / "none", NO_COLOR="1")
    style = r"\x1b\[[0-9;]*m"
    assert re.search(style, coloured.written) and not re.search(style, plain.written)
    assert coloured.rows() == plain.rows()


def test_columns_is_obeyed(data_root: Path, tmp_path: Path) -> None:
    terminal = show("run", 200, data_root, tmp_path, COLUMNS="70")
    assert max(len(row) for frame in terminal.frames() for row in frame) <= 80  # of a path that is not broken
    assert [row for row in terminal.rows() if len(row) > 70 and not one_word(row)] == []
