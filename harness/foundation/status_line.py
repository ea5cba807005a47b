"""One line of progress on standard error: redrawn on a terminal, printed now and then elsewhere."""

import os
import sys
import time
from contextlib import suppress
from typing import TextIO

_PRINTED_EVERY_S = 5.0
_WIDTH = 20


class StatusLine:
    """What a long piece of work says of itself. Silent when `quiet`, and where there is no standard error."""

    def __init__(self, *, quiet: bool = False, stream: TextIO | None = None) -> None:
        self._stream = None if quiet else stream or sys.stderr
        self.is_terminal = self._stream is not None and self._stream.isatty()
        self._printed_s = time.monotonic()

    @property
    def columns(self) -> int:
        """How wide the terminal is, as COLUMNS or itself says; 80 where neither does."""
        with suppress(ValueError):
            if (told := int(os.environ.get("COLUMNS", "0"))) > 0:
                return told
        with suppress(OSError, ValueError, AttributeError):
            if (found := os.get_terminal_size(self._stream.fileno()).columns) > 0:  # type: ignore[union-attr]
                return found
        return 80

    def bar(self, share: float) -> str:
        """Return a bar of that share, followed by a space; nothing where lines are printed."""
        filled = round(_WIDTH * share)
        return f"[{'#' * filled}{'.' * (_WIDTH - filled)}] " if self.is_terminal else ""

    def show(self, text: str, *, now: bool = False) -> None:
        """Redraw the line, cut to the terminal; elsewhere print it, if `now` or if none was for five seconds."""
        if self.is_terminal:
            self._write(f"\r\x1b[2K{text[: self.columns - 1]}")  # a longer one goes on in the next row, which stays
        elif now or time.monotonic() - self._printed_s >= _PRINTED_EVERY_S:
            self._printed_s = time.monotonic()
            self._write(f"{text}\n")

    def show_count(self, num_done: int, num_total: int, what: str) -> None:
        """Show how many of all are done; nothing is left on a terminal in the end."""
        is_left = not (self.is_terminal and num_done >= num_total)
        self.show(f"{self.bar(num_done / num_total)}{num_done} of {num_total} {what}" if is_left else "")

    def finish(self, text: str = "") -> None:
        """Leave `text` as the last line; without one, leave nothing on a terminal."""
        if text:
            self._write(("\r\x1b[2K" if self.is_terminal else "") + f"{text}\n")
        elif self.is_terminal:
            self._write("\r\x1b[2K")

    def _write(self, text: str) -> None:
        if self._stream is not None:
            self._stream.write(text)
            self._stream.flush()
