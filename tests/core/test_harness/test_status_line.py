"""Progress on a terminal of any width: rows that fit, redrawn in place; as lines where it is none."""

import io
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from screen import Terminal

from harness.foundation import status_line
from harness.foundation.status_line import StatusLine, StatusRow
from harness.run_sets import progress
from harness.run_sets.progress import MeasuringProgress, Outlook, RunProgress
from rules.benchmarks.loader import load_benchmark

WIDTHS = [60, 80, 100, 200]


@pytest.fixture(autouse=True)
def drawn_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is shown is drawn, on a terminal that says itself how wide it is."""
    monkeypatch.setattr(status_line, "_DRAWN_EVERY_S", 0.0)
    for name in ("COLUMNS", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


def clock(*moments: float) -> Iterator[float]:
    yield from moments
    while True:
        yield moments[-1]


def run_of_five(terminal: Terminal, monkeypatch: pytest.MonkeyPatch, outlook: Outlook) -> None:
    """The second of five runs, from its start to its end."""
    with terminal.opened() as stream:
        monkeypatch.setattr(progress, "StatusLine", lambda quiet: StatusLine(quiet=quiet, stream=stream))
        ticks = clock(100.0, 100.0, 100.0, 104.0)
        shown = RunProgress(
            "run 2 of 5", load_benchmark("dlrm_small").quality, outlook=outlook, clock=lambda: next(ticks)
        )
        shown.on_event({"event": "start", "train_samples": 995_328})
        shown.on_event({"event": "eval", "quality": 0.72373})
        shown.on_event({"event": "train", "samples": 123_456, "samples_per_s": 37_598.0})
        shown.finish("target met, AUC 0.89012 after 746,858 samples")


@pytest.mark.parametrize("columns", WIDTHS)
def test_a_run_and_all_runs_are_a_row_each_of_which_one_remains(
    columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal(columns)
    run_of_five(terminal, monkeypatch, Outlook(number=2, total=5, usual_s=10.0, later_s=30.0))
    assert terminal.broken() == []
    assert terminal.rows() == ["run 2 of 5: target met, AUC 0.89012 after 746,858 samples", ""]
    whole, run = next(frame[-3:-1] for frame in reversed(terminal.frames()) if "37,598" in "".join(frame))
    assert re.fullmatch(r"all 5 runs .* 28%  about 36 s left", whole)
    assert re.match(r"run 2 of 5 .* 40%  AUC 0.72373 of 0.89  37,598 samples/s", run)
    assert run.endswith("6 s left") is (columns >= 80)
    assert ("━" in run) is (columns >= 80)


def test_before_a_run_has_ended_nothing_is_known_but_its_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal(100)
    run_of_five(terminal, monkeypatch, Outlook(number=1, total=5, label="new"))
    whole, run = next(frame[-3:-1] for frame in reversed(terminal.frames()) if "37,598" in "".join(frame))
    assert "left" not in whole and run.endswith("left") and "< " in run
    assert terminal.rows()[0].startswith("[1/5] new, run 2 of 5: target met")


@pytest.mark.parametrize(("variable", "is_coloured"), [("", True), ("1", False)])
def test_there_is_no_colour_where_none_is_wanted(
    variable: str, is_coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", variable)
    terminal = Terminal(80)
    run_of_five(terminal, monkeypatch, Outlook(number=2, total=5, usual_s=10.0, later_s=30.0))
    assert bool(re.search(r"\x1b\[[0-9;]*m", terminal.written)) is is_coloured


def test_the_cursor_is_never_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever kills the process would be left without one."""
    terminal = Terminal(80)
    run_of_five(terminal, monkeypatch, Outlook(number=2, total=5))
    assert "\x1b[?25l" not in terminal.written


@pytest.mark.parametrize(("variable", "columns"), [("", 93), ("70", 70)])
def test_the_width_is_that_of_the_terminal_or_of_columns(
    variable: str, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", variable)
    terminal = Terminal(93)
    with terminal.opened() as stream:
        line = StatusLine(stream=stream)
        assert line.is_terminal and line.columns == columns
        line.show("x" * 300)
        line.finish("words " * 40 + "results/" + "y" * 100)
    assert max(len(row) for frame in terminal.frames()[:-2] for row in frame) == columns - 2
    *words, path, _ = terminal.rows()[:-1]
    assert all(len(row) < columns for row in words) and path.startswith("  results/yyy")  # a path is not broken


def test_a_measurement_names_what_it_does_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal(80)
    with terminal.opened() as stream:
        monkeypatch.setattr(progress, "StatusLine", lambda quiet: StatusLine(quiet=quiet, stream=stream))
        shown = MeasuringProgress("process 1", outlook=Outlook(number=1, total=5))
        shown.on_event({"event": "progress", "doing": "timing"})
        shown.finish("")
    assert any("process 1" in row and "timing" in row for frame in terminal.frames() for row in frame)
    assert [row for row in terminal.rows() if row] == []


def test_a_wide_name_leaves_room_for_numbers() -> None:
    terminal = Terminal(60)
    with terminal.opened() as stream:
        line = StatusLine(stream=stream)
        line.show_rows((StatusRow("x" * 80, 0.5, ("12 s left",)),), "")
        line.finish()
    assert any("…" in row and "50%  12 s left" in row for frame in terminal.frames() for row in frame)
    assert terminal.broken() == []


@pytest.mark.parametrize("kind", ["dumb", "unknown"])
def test_a_terminal_that_cannot_redraw_gets_lines(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", kind)
    terminal = Terminal(80)
    with terminal.opened() as stream:
        line = StatusLine(stream=stream)
        line.show("first", share=0.5, now=True)
        line.finish("last")
    assert terminal.rows() == ["first:  50%", "last", ""]
    assert "\x1b" not in terminal.written


def test_where_lines_are_printed_none_is_cut(tmp_path: Path) -> None:
    with (tmp_path / "file").open("w") as stream:
        StatusLine(stream=stream).show("x" * 300, now=True)
    assert (tmp_path / "file").read_text() == "x" * 300 + "\n"


def test_nothing_is_said_to_who_wants_no_progress() -> None:
    stream = io.StringIO()
    line = StatusLine(quiet=True, stream=stream)
    line.show("x", now=True)
    line.finish("x")
    assert stream.getvalue() == "" and not line.is_terminal
