"""Show the status of long work on standard error: rows that rich redraws on a terminal, or else an occasional line.

rich is imported when the first row is drawn, so that --help and quick commands start without it.
"""

import os
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, TextIO

from reports.render.terminal import fold

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live
    from rich.table import Table

_PRINTED_EVERY_S = 5.0
_DRAWN_EVERY_S = 0.1
"""Shortest seconds between two redraws of the status: each takes a millisecond of the CPUs that are being
measured."""
_BARS = ((100, 20), (72, 10))
"""Width of the progress bar by width of the terminal, in pairs (terminal at least, bar), in columns. Narrower
terminals have no bar."""


class StatusRow(NamedTuple):
    """One row of the progress display of long work on a terminal: a label, the fraction of the work that is done, and
    further texts, most important first."""

    label: str
    share: float | None = None
    """Fraction of the work that is done, from 0 to 1; None where the total is unknown."""
    parts: tuple[str, ...] = ()
    """Further texts of the status row; those that do not fit in the row are left out whole."""


class StatusLine:
    """Progress display of a long piece of work on standard error; prints nothing when `quiet`, or where there is no
    standard error."""

    def __init__(self, *, quiet: bool = False, stream: TextIO | None = None) -> None:
        self._stream = None if quiet else stream or sys.stderr
        is_screen = os.environ.get("TERM", "") not in ("dumb", "unknown")
        self.is_terminal = self._stream is not None and self._stream.isatty() and is_screen
        self._printed_s, self._drawn_s = time.monotonic(), float("-inf")
        self._live: Live | None = None

    @property
    def columns(self) -> int:
        """Width of the terminal in columns, from COLUMNS or the terminal itself; 80 where neither is known."""
        return find_terminal_columns(self._stream)

    def show(self, text: str, *, share: float | None = None, now: bool = False) -> None:
        """Show one row of progress: `text`, with `share`, the fraction of the work that is done. On a terminal the
        row replaces all earlier rows and has a bar for the fraction. Elsewhere the row is printed as a line, at most
        once in five seconds unless `now` is true."""
        printed = text if share is None else f"{text}: {share:4.0%}"
        self.show_rows((StatusRow(text, share),), printed, now=now)

    def show_rows(self, rows: Sequence[StatusRow], text: str, *, now: bool = False) -> None:
        """On a terminal, replace the drawn progress rows by `rows`. Elsewhere print `text`, but only if `now` is true
        or nothing was printed in the last five seconds."""
        moment_s = time.monotonic()
        if self.is_terminal:
            if now or moment_s - self._drawn_s >= _DRAWN_EVERY_S:
                self._drawn_s = moment_s
                self._draw(rows)
        elif now or moment_s - self._printed_s >= _PRINTED_EVERY_S:
            self._printed_s = moment_s
            self._write(f"{text}\n")

    def show_count(self, num_done: int, num_total: int, what: str) -> None:
        """Show how many of `num_total` items (named by `what`) of long work are finished; on a terminal the row
        disappears when all are."""
        if self.is_terminal and num_done >= num_total:
            self.finish()
            return
        text = f"{num_done:,} of {num_total:,} {what}"
        self.show_rows((StatusRow(text, num_done / num_total),), text)

    def finish(self, text: str = "") -> None:
        """End the progress display. With `text`, print it, wrapped to the terminal's width. Without it, clear the
        display of a terminal."""
        if self._live is not None:
            self._live.stop()
            self._live, self._drawn_s = None, float("-inf")
        if text:
            self._write(f"{fold(text, self.columns - 1) if self.is_terminal else text}\n")

    def _draw(self, rows: Sequence[StatusRow]) -> None:
        assert self._stream is not None
        if self._live is None:
            self._live = _start_live(self._stream)
        width = self.columns - 1  # a full row would wrap to the next one
        self._live.console.width = width
        self._live.update(_table_of(rows, width), refresh=True)

    def _write(self, text: str) -> None:
        if self._stream is not None:
            self._stream.write(text)
            self._stream.flush()


def folded(text: str, stream: TextIO) -> str:
    """Return `text` wrapped to the width of the stream's terminal, if it is one; words and commands stay whole."""
    return fold(text, find_terminal_columns(stream) - 1) if stream.isatty() else text


def find_terminal_columns(stream: TextIO | None) -> int:
    """Return the width of a stream's terminal in columns, from COLUMNS or the terminal itself; 80 where neither is
    known."""
    with suppress(ValueError):
        if (told := int(os.environ.get("COLUMNS", "0"))) > 0:
            return told
    with suppress(OSError, ValueError, AttributeError):
        if (found := os.get_terminal_size(stream.fileno()).columns) > 0:  # type: ignore[union-attr]
            return found
    return 80


def _start_live(stream: TextIO) -> "Live":
    """Start drawing status rows, without rich's own refresh thread, which would compete with the measured work."""
    from rich.live import Live

    live = Live(
        console=_make_console(stream),
        auto_refresh=False,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )
    live.start()
    return live


def _make_console(stream: TextIO) -> "Console":
    from rich.console import Console

    class VisibleCursorConsole(Console):
        """Console of rich that never hides the cursor, since a killed process could not show it again."""

        def show_cursor(self, show: bool = True) -> bool:
            return False

    return VisibleCursorConsole(
        file=stream,
        force_terminal=True,
        color_system=None if os.environ.get("NO_COLOR") else "auto",
        width=80,
        highlight=False,
        markup=False,
        emoji=False,
    )


def _table_of(rows: Sequence[StatusRow], width: int) -> "Table":
    """Return status rows laid out below each other: labels, bars, and as many whole parts as fit."""
    from rich.cells import cell_len
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    has_bar = any(row.share is not None for row in rows)
    bar = next((size for least, size in _BARS if width + 1 >= least), 0) if has_bar else 0
    most = width if not any(row.parts or row.share is not None for row in rows) else max(width // 2, 1)
    names = min(most, max(cell_len(row.label) for row in rows))
    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True, overflow="ellipsis", max_width=names)
    if bar:
        table.add_column(width=bar)
    table.add_column(no_wrap=True, overflow="ellipsis")
    left = width - names - 1 - (bar + 1 if bar else 0)
    for row in rows:
        parts = row.parts if row.share is None else (f"{min(row.share, 1.0):4.0%}", *row.parts)
        text = ""
        for part in parts:
            joined = f"{text}  {part}" if text else part
            if cell_len(joined) > left:
                break
            text = joined
        gauge = (
            []
            if not bar
            else [
                ""
                if row.share is None
                else ProgressBar(1.0, row.share, bar, complete_style="cyan", finished_style="cyan")
            ]
        )
        table.add_row(Text(row.label), *gauge, Text(text))
    return table
