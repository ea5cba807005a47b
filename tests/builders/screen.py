"""A terminal of so many columns for a command line in this process, and what an emulator of it shows."""

import fcntl
import os
import pty
import re
import struct
import termios
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from threading import Thread
from typing import TextIO

import pyte
from scripted_commands import acting
from scripted_workers import ScriptedWorkers

from harness.cli import main

ROWS, ENDLESS = 400, 2_000
"""More rows than a command writes, so that none scrolls away; more columns than a line has."""


class Terminal:
    """What was written to a terminal; read while it is written, as its buffer is small."""

    def __init__(self, columns: int) -> None:
        self.columns, self._parts = columns, list[bytes]()

    @property
    def written(self) -> str:
        return b"".join(self._parts).decode("utf-8")

    @contextmanager
    def opened(self) -> Iterator[TextIO]:
        """Open it; when it is closed, all that was written has been read."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, self.columns, 0, 0))
        reader = Thread(target=self._read, args=(ours,))
        reader.start()
        try:
            with os.fdopen(theirs, "w", encoding="utf-8") as stream:
                yield stream
        finally:
            reader.join()
            os.close(ours)

    def _read(self, ours: int) -> None:
        while True:
            try:
                part = os.read(ours, 1 << 16)
            except OSError:  # as Linux says that the other end is closed
                return
            if not part:
                return
            self._parts.append(part)

    def frames(self, columns: int | None = None) -> list[list[str]]:
        """The rows about the cursor whenever something is about to be drawn again; all that stay in the end."""
        screen = pyte.Screen(columns or self.columns, ROWS)
        stream, found = pyte.Stream(screen), []
        for part in re.split(r"(?<=\n)(?=\r)|(?=\r\x1b\[)", self.written):
            stream.feed(part)
            found.append(_rows(screen, max(screen.cursor.y - 4, 0)))
        return [*found, _rows(screen, 0)]

    def rows(self) -> list[str]:
        """What stays."""
        return self.frames()[-1]

    def broken(self) -> list[str]:
        """Rows that were longer than the terminal, as an endless one would have shown them, each once."""
        seen = (row for frame in self.frames(ENDLESS) for row in frame if len(row) > self.columns)
        return list(dict.fromkeys(seen))


def _rows(screen: pyte.Screen, first: int) -> list[str]:
    """The rows from `first` to the cursor, without blanks behind them."""
    written = (screen.buffer[row] for row in range(first, screen.cursor.y + 1))
    return ["".join(line[at].data for at in range(max(line, default=-1) + 1)).rstrip() for line in written]


def run_on_terminal(
    words: str, folder: Path, workers: ScriptedWorkers, columns: int, variables: Mapping[str, str] | None = None
) -> Terminal:
    """Run one command line in `folder` on a terminal of so many columns, with these workers."""
    terminal = Terminal(columns)
    told = {"COLUMNS": "", "NO_COLOR": "", "TERM": "xterm-256color", **(variables or {})}
    with (
        acting(folder, words.split(), told, workers),
        terminal.opened() as stream,
        redirect_stdout(stream),
        redirect_stderr(stream),
        suppress(SystemExit),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")  # of packages that a verb imports
        main(words.split())
    return terminal
