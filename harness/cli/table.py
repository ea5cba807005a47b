"""Plain-text tables: aligned by what a terminal shows, and safe with whatever the cells hold."""

import os
import shutil
import unicodedata
from collections.abc import Iterable, Sequence

import click

from rules.logs.text import printable as escape_controls

GAP = "  "
_MIN_WRAPPED = 12
"""Columns are not wrapped below this many columns of the terminal: the table is then wider than asked."""


def printable(value: object) -> str:
    """One line of text that cannot move the cursor, hide text or break an encoder: controls become escapes."""
    return escape_controls(str(value))


def display_width(text: str) -> int:
    """Columns of a terminal that `text` takes: two for East Asian wide characters, none for combining marks."""
    return sum(_width(character) for character in text)


def render_table(
    headers: Sequence[str], rows: Iterable[Sequence[object]], align: str = "", *, width: int | None = None
) -> str:
    """Headers, a rule, and one line per row; None is shown as '-'. Lines carry no trailing blanks.

    `align` has one letter per column: 'l' left, 'r' right, 'L' left and never wrapped; columns without one are
    'l'. With `width`, the widest 'l' columns are wrapped until the table fits, words being cut last of all.
    Raises ValueError when a row has another number of cells than there are headers.
    """
    cells = [[printable(header) for header in headers]]
    for row in rows:
        if len(row) != len(headers):
            raise ValueError(f"a row of {len(row)} cells in a table of {len(headers)} columns: {row!r}")
        cells.append(["-" if cell is None else printable(cell) for cell in row])
    aligns = align.ljust(len(headers), "l")
    widths = [max(display_width(row[column]) for row in cells) for column in range(len(headers))]
    if width is not None:
        words = [max(display_width(word) for row in cells for word in row[i].split(" ")) for i in range(len(headers))]
        widths = _shrink(_shrink(widths, words, aligns, width), [0] * len(headers), aligns, width)
    lines = _lines(cells[0], widths, aligns)
    lines.append(GAP.join("-" * column for column in widths))
    for row in cells[1:]:
        lines.extend(_lines(row, widths, aligns))
    return "\n".join(line.rstrip() for line in lines)


def echo_table(
    headers: Sequence[str], rows: Iterable[Sequence[object]], align: str = "", *, colours: Sequence[str] = ()
) -> None:
    """Print a table wrapped to the terminal. `colours` has one per row, for its first cell.

    That cell must then be one word, so that it is neither wrapped nor escaped.
    """
    body = [list(row) for row in rows]
    lines = render_table(headers, body, align, width=terminal_width()).split("\n")
    remaining = [(str(row[0]), colour) for row, colour in zip(body, colours, strict=False)]
    for number, line in enumerate(lines):
        if number >= 2 and remaining and line.startswith(remaining[0][0]):
            word, colour = remaining.pop(0)
            line = style(word, colour=colour) + line[len(word) :]
        click.echo(line)


def terminal_width() -> int:
    """Columns to print to: the terminal's, COLUMNS, or 80."""
    return max(40, shutil.get_terminal_size((80, 24)).columns)


def style(text: str, *, colour: str | None = None, bold: bool = False) -> str:
    """ANSI colour, unless NO_COLOR is set; click.echo drops it where the output is no terminal."""
    if os.environ.get("NO_COLOR"):
        return text
    return click.style(text, fg=colour, bold=bold or None)


def wrap(text: str, width: int) -> list[str]:
    """Break at blanks so that each line takes at most `width` columns; longer words are cut."""
    if display_width(text) <= width:
        return [text]
    lines: list[str] = []
    line = ""
    for word in text.split(" "):
        joined = f"{line} {word}" if line else word
        if display_width(joined) <= width:
            line = joined
            continue
        if line:
            lines.append(line)
        line = word
        while display_width(line) > width:
            head = _head(line, width)
            lines.append(head)
            line = line[len(head) :]
    return [*lines, line] if line else lines


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def _width(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _head(text: str, width: int) -> str:
    """The longest beginning that fits, at least one character."""
    used = 0
    for index, character in enumerate(text):
        used += _width(character)
        if used > width and index:
            return text[:index]
    return text


def _shrink(widths: list[int], least: list[int], aligns: str, total: int) -> list[int]:
    """Take from the widest column that may give, until `total` is met or none is left that may."""
    widths = list(widths)
    excess = sum(widths) + len(GAP) * (len(widths) - 1) - total
    while excess > 0:
        wide = [i for i, column in enumerate(widths) if aligns[i] == "l" and column > max(_MIN_WRAPPED, least[i])]
        if not wide:
            return widths
        widths[max(wide, key=lambda i: widths[i])] -= 1
        excess -= 1
    return widths


def _lines(row: Sequence[str], widths: Sequence[int], aligns: str) -> list[str]:
    wrapped = [wrap(cell, column) for cell, column in zip(row, widths, strict=True)]
    height = max((len(lines) for lines in wrapped), default=0)
    return [
        GAP.join(
            _pad(lines[i] if i < len(lines) else "", column, letter)
            for lines, column, letter in zip(wrapped, widths, aligns, strict=False)
        )
        for i in range(height)
    ]


def _pad(text: str, width: int, letter: str) -> str:
    blanks = " " * (width - display_width(text))
    return blanks + text if letter == "r" else text + blanks
