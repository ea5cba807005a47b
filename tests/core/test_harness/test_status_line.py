"""Progress on a terminal of any width is one row, which the next one takes the place of."""

import io
import os
import pty
import re
import struct
from fcntl import ioctl
from pathlib import Path
from termios import TIOCSWINSZ

import pytest

from harness.foundation.status_line import StatusLine
from harness.run_sets import progress
from harness.run_sets.progress import RunProgress
from rules.benchmarks.loader import load_benchmark


class Terminal(io.StringIO):
    """A terminal that says nothing of its width."""

    def isatty(self) -> bool:
        return True


def rows(written: str) -> list[str]:
    """What each redrawing showed."""
    return [row for row in re.split(r"\r\x1b\[2K", written) if row]


@pytest.mark.parametrize("columns", [60, 80, 100, 200])
def test_what_a_run_says_stays_in_one_row(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    terminal = Terminal()
    monkeypatch.setattr(progress, "StatusLine", lambda quiet: StatusLine(quiet=quiet, stream=terminal))
    shown = RunProgress("run 1 of 5", load_benchmark("dlrm_small").quality)
    shown.on_event({"event": "start", "train_samples": 995_328})
    shown.on_event({"event": "eval", "quality": 0.72373})
    shown.on_event({"event": "train", "samples": 123_456, "samples_per_s": 37_598.0})
    row = rows(terminal.getvalue())[-1]
    assert len(row) < columns and "37,598 samples/s" in row
    assert columns < 80 or "AUC 0.72373 (target 0.89)" in row


def test_the_width_is_that_of_the_terminal_and_of_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    ours, theirs = pty.openpty()
    ioctl(theirs, TIOCSWINSZ, struct.pack("HHHH", 24, 93, 0, 0))
    with os.fdopen(theirs, "w") as stream:
        line = StatusLine(stream=stream)
        assert line.is_terminal and line.columns == 93
        line.show("x" * 300)
        assert rows(os.read(ours, 1000).decode()) == ["x" * 92]
    os.close(ours)


def test_where_lines_are_printed_none_is_cut(tmp_path: Path) -> None:
    with (tmp_path / "file").open("w") as stream:
        StatusLine(stream=stream).show("x" * 300, now=True)
    assert (tmp_path / "file").read_text() == "x" * 300 + "\n"
