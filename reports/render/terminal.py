"""Renders blocks as lines of text for a terminal: aligned tables, wrapped text, no control characters that move the
cursor.

`harness.cli.shared.output` prints the lines. Figures are left to the page.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence

from reports.document.blocks import (
    Block,
    Bullets,
    Cell,
    Chart,
    Command,
    Fact,
    Facts,
    FindingGroup,
    FindingList,
    Fold,
    Heading,
    Multiples,
    Part,
    Prose,
    Table,
    TableColumn,
)
from rules.logs.text import printable

GAP = "  "
_MIN_WRAPPED = len("inconclusive:")
"""Least width, in terminal columns, to which a table's column of words is wrapped."""
_WHOLE = re.compile(
    r"(?<=[:,] )dlrmbench .+?(?:[.,;](?= |$)|$)|\S*['`]dlrmbench [^'`]*['`]\S*|\Adlrmbench [a-z-]+ \S+\Z"
    r"|\S*\d(?: %)? – (?:over )?\d\S*(?: %\S*)?|\S*\d %\S*"
)
"""Pattern of the parts of a text that are not broken over lines: commands that users copy, numbers with a percent
sign, and ranges. A command is recognised if it is in quotes, if it is the whole text, or if it follows a colon or
comma and ends with the clause."""
_CODES = {
    "strong": "\x1b[1m",
    **dict.fromkeys(("error", "invalid", "refused", "slower"), "\x1b[31m"),
    **dict.fromkeys(("valid", "ok", "faster"), "\x1b[32m"),
    **dict.fromkeys(("warning", "incomplete", "inconclusive"), "\x1b[33m"),
    **dict.fromkeys(("info", "no difference shown", "below the smallest effect"), "\x1b[36m"),
    **dict.fromkeys(("unknown", "not judged"), "\x1b[90m"),
}
Style = Callable[[str, str], str]
"""Function of (text, style class) that returns the text with terminal styling, which adds no visible width."""


def plain(text: str, kind: str) -> str:
    """Return `text` unstyled, for terminals without colour."""
    return text


def ansi(text: str, kind: str) -> str:
    """Return `text` in the terminal colour (ANSI escape codes) of its style class."""
    code = _CODES.get(kind, "")
    return f"{code}{text}\x1b[0m" if code and text else text


def render_terminal(blocks: Sequence[Block], *, width: int = 80, style: Style = plain) -> str:
    """Return all blocks as text for a terminal, with a blank line between two of them and no line break at the end.
    Words are cut only in a table column that is wider than the terminal by itself."""
    parts = [_lines(block, width, style) for block in blocks]
    return "\n\n".join("\n".join(line.rstrip() for line in lines) for lines in parts if lines)


def _lines(block: Block, width: int, style: Style) -> list[str]:
    match block:
        case Heading():
            return _heading(block, width, style)
        case Prose(text=text):
            return _fill(printable(text), width)
        case Bullets(items=items):
            return [line for item in items for line in _hang(f"- {item}", width)]
        case Facts(facts=facts):
            return _facts(facts, width)
        case Command(text=text):
            return [printable(line) for line in text.split("\n")]
        case Table(layout="records"):
            return [line for part in _records(block) for line in (*_lines(part, width, style), "")][:-1]
        case Table():
            return _table(block, width, style)
        case FindingList(groups=groups):
            return [line for group in groups for line in _finding_group(group, width, style)]
        case Fold(summary=summary, blocks=blocks):
            return [*_fill(printable(summary), width), *_inside(blocks, width, style)]
        case Part(heading=heading, blocks=blocks):
            return [*_heading(heading, width, style), *_inside(blocks, width, style)]
        case Chart(lead=lead, table=table):
            return [*_fill(printable(lead), width), *(_lines(table, width, style) if table else ())]
        case Multiples():
            return []


def _inside(blocks: Iterable[Block], width: int, style: Style) -> list[str]:
    return [GAP + line for block in blocks for line in _lines(block, width - len(GAP), style)]


def _heading(heading: Heading, width: int, style: Style) -> list[str]:
    """Return the terminal lines of a heading; the verdict word is emphasised where there is one, else the text."""
    text, word = printable(heading.text), printable(heading.word)
    said = text + (GAP + printable(heading.note) if heading.note else "")
    if word:
        first, *others = _fill(said, max(width - display_width(word) - len(GAP), 20))
        shown = style(style(word, heading.kind), "strong")
        return [shown + GAP + first, *(GAP + line for other in others for line in _fill(other, width - len(GAP)))]
    first, *others = _hang(said, width)
    if first.startswith(text):
        return [style(text, "strong") + first.removeprefix(text), *others]
    return [style(line, "strong") for line in (first, *others)]


def _facts(facts: Sequence[Fact], width: int) -> list[str]:
    """Return named values as terminal lines: the names in a left column, the values to the right of them. A value
    with a word too long for the right column, such as a path, stands below its name."""
    lead = max((display_width(printable(fact.name)) for fact in facts), default=0) + len(GAP)
    lines = []
    for fact in facts:
        name = printable(fact.name)
        texts = _fill(printable(fact.line), max(width - lead, 20))
        if any(display_width(text) > max(width - lead, 20) for text in texts):
            lines += [name, *(" " * 4 + text for text in _fill(printable(fact.line), max(width - 4, 20)))]
            continue
        lines.append(name + " " * (lead - display_width(name)) + texts[0])
        lines += [" " * lead + text for text in texts[1:]]
    return lines


def _records(table: Table) -> Iterable[Part]:
    """Yield each row of a table as a heading with named values below it, for tables too wide for a terminal; empty
    cells are left out."""
    for first, *cells in table.rows:
        said = zip(table.columns[1:], cells, strict=True)
        facts = tuple(Fact(name=column.name, value=cell.line) for column, cell in said if cell.text)
        yield Part(heading=Heading(text=first.text, note=first.sub), blocks=(Facts(facts=facts),))


def _finding_group(group: FindingGroup, width: int, style: Style) -> list[str]:
    """Return the terminal lines of one rule's findings: the rule, then every finding with its place. Where successive
    findings have the same remedy, it is printed once, after the last of them."""
    first, *lines = _hang(f"{group.severity}  {printable(group.code)}  {printable(group.title)}", width)
    lines = [style(group.severity, group.severity) + first.removeprefix(group.severity), *lines]
    texts = []
    for row, following in zip(group.rows, (*group.rows[1:], None), strict=True):
        texts.append(f"{row.where}: {row.sentence}")
        if following is None and group.more:
            texts.append(group.more)
        if row.remedy and (following is None or following.remedy != row.remedy):
            texts.append(f"fix: {row.remedy}")
    texts.append(f"rule: {group.citation}")
    return [*lines, *(" " * 4 + line for text in texts for line in _hang(text, width - 4))]


def _table(table: Table, width: int, style: Style) -> list[str]:
    """Return the terminal lines of a table: caption, heads, a line of dashes, and the lines of each row. The first
    column is wrapped only where it would take more than half of the width.

    Columns that do not fit into the width follow below in a second part, and so on; every part repeats the columns
    that name the rows.
    """
    above = [index for index, column in enumerate(table.columns) if not column.is_below]
    below = [index for index, column in enumerate(table.columns) if column.is_below]
    columns = [table.columns[index] for index in above]
    rows = [[row[index] for index in above] for row in table.rows]
    first = max((display_width(printable(cell.text)) for row in rows for cell in row[:1]), default=0)
    aligns = "".join("r" if column.is_number else "l" for column in columns)
    if first <= width // 2:
        aligns = aligns[0].replace("l", "L") + aligns[1:]
    lines = [*_fill(printable(table.caption), width)] if table.caption else []
    parts = _divide(columns, rows, aligns, width)
    for number, part in enumerate(parts):
        lines += [""] if number else []
        shown = [[row[index] for index in part] for row in rows]
        letters = "".join(aligns[index] for index in part)
        head, *body = _aligned([columns[index] for index in part], shown, letters, width, style)
        lines += head
        for row, cells in zip(table.rows, body, strict=True):
            lines += cells
            if number == len(parts) - 1:
                lines += [" " * 4 + line for index in below for line in _below(row[index].text, width - 4)]
    return lines


def _below(text: str, width: int) -> list[str]:
    """Return the lines of a table cell that is too long for its row and is printed below the row. A list of items
    separated by '; ' is wrapped at blanks; any other text, such as a path, stays on one line."""
    said = printable(text)
    return _fill(said, width) if "; " in said else [said] if said else []


def _divide(
    columns: Sequence[TableColumn], rows: Sequence[Sequence[Cell]], aligns: str, width: int
) -> list[list[int]]:
    """Divide a table's columns into parts that fit the terminal's width; return the column indices of each part. A
    table that fits is one part.

    Every part begins with the columns that name the rows: the first column, and further ones marked `names_row` as
    long as they take at most half of the width together. Until the rows' names are distinct, they may take two
    thirds.
    """
    texts = _texts(columns, rows)
    least = _least(texts, aligns)
    names = [0] if columns else []
    for index in range(1, len(columns)):
        are_apart = len({tuple(row[name] for name in names) for row in texts[1:]}) == len(rows)
        most = width // 2 if are_apart else 2 * width // 3
        if not columns[index].names_row or _total(least, [*names, index]) > most:
            break
        names.append(index)
    parts = [[*names]]
    for index in range(len(names), len(columns)):
        if _total(least, [*parts[-1], index]) > width and len(parts[-1]) > len(names):
            parts.append([*names])
        parts[-1].append(index)
    return parts


def _total(widths: Sequence[int], indices: Sequence[int]) -> int:
    """Return the width in terminal columns that the given table columns take, with the gaps between them."""
    return sum(widths[index] for index in indices) + len(GAP) * (len(indices) - 1)


def _texts(columns: Sequence[TableColumn], rows: Sequence[Sequence[Cell]]) -> list[list[str]]:
    """Return the texts of a table, made printable: a list of the columns' names, then a list for each row."""
    return [[printable(column.name) for column in columns], *([printable(cell.text) for cell in row] for row in rows)]


def _least(texts: Sequence[Sequence[str]], aligns: str) -> list[int]:
    """Return, for each table column, the least width at which no word is cut. A column of numbers must hold its
    longest number and the longest word of its heading. A column of words must hold its longest word."""
    widths = [max(display_width(row[index]) for row in texts) for index in range(len(aligns))]
    words = [max(display_width(word) for row in texts for word in row[i].split(" ")) for i in range(len(aligns))]
    cells = [max((display_width(row[index]) for row in texts[1:]), default=0) for index in range(len(aligns))]
    heads = [max(map(display_width, texts[0][index].split(" "))) for index in range(len(aligns))]
    least = {"l": [max(each, _MIN_WRAPPED) for each in words], "r": list(map(max, cells, heads)), "L": widths}
    return [min(widths[index], least[letter][index]) for index, letter in enumerate(aligns)]


def _aligned(
    columns: Sequence[TableColumn], rows: Sequence[Sequence[Cell]], aligns: str, width: int, style: Style
) -> list[list[str]]:
    """Return the terminal lines of a table's head, then the lines of each row.

    `aligns` has one letter per column: 'l' for a left-aligned column, 'r' for a right-aligned column of which only
    the head may be wrapped, 'L' for a left-aligned column that is never wrapped. If a row would be wider than
    `width`, the widest columns that may be wrapped become narrower in three steps, until the row fits. In the first
    step ranges and numbers with their units stay whole. In the second step words stay whole. In the third step words
    are cut.
    """
    texts, least = _texts(columns, rows), _least(_texts(columns, rows), aligns)
    widths = [max(display_width(row[index]) for row in texts) for index in range(len(columns))]
    units = [max(display_width(unit) for row in texts for unit in _units(row[i])) for i in range(len(columns))]
    whole = [max(least[i], units[i]) if letter == "l" else least[i] for i, letter in enumerate(aligns)]
    widths = _shrink(_shrink(widths, whole, width), least, width)
    cut = [min(_MIN_WRAPPED, each) if letter == "l" else each for each, letter in zip(least, aligns, strict=True)]
    widths = _shrink(widths, cut, width)
    kinds = [[""] * len(columns), *([cell.kind for cell in row] for row in rows)]
    parts = [_row(row, widths, aligns, kind, style) for row, kind in zip(texts, kinds, strict=True)]
    parts[0].append(GAP.join("-" * column for column in widths))
    return parts


def display_width(text: str) -> int:
    """Return the number of terminal columns that `text` takes: two per East Asian wide character, none for combining
    marks."""
    return sum(_width(character) for character in text)


def wrap(text: str, width: int) -> list[str]:
    """Break text at blanks so that each line takes at most `width` terminal columns; longer words are cut.

    A unit that should stay on one line and does not fit, such as a range, is broken at its own blanks before a word
    is cut.
    """
    return [piece for line in _fill(text, width) for part in _at_blanks(line, width) for piece in _cut(part, width)]


def fold(text: str, width: int) -> str:
    """Break each line of `text` at blanks to fit `width`, continuation lines indented; paths and commands stay
    whole."""
    return "\n".join(line for each in text.split("\n") for line in _hang(each, width))


def _units(text: str) -> list[str]:
    """Split text at blanks, but not inside units that stay on one line (commands, ranges, numbers with their percent
    sign)."""
    units, end = list[str](), 0
    for found in _WHOLE.finditer(text):
        before = text[end : found.start()].removeprefix(" " if units else "")
        units += before.removesuffix(" ").split(" ") if before.strip(" ") else []
        units.append(found[0])
        end = found.end()
    rest = text[end:]
    return [*units, *rest.removeprefix(" " if units else "").split(" ")] if rest or not units else units


def _at_blanks(line: str, width: int) -> list[str]:
    """Break a line that is too long at any blank, also inside commands and ranges, which otherwise stay whole."""
    return [line] if display_width(line) <= width else _join(line.split(" "), width)


def _fill(text: str, width: int) -> list[str]:
    """Break text at blanks into lines of `width`; a longer word, such as a path, gets a line of its own and stays
    whole."""
    return _join(_units(text), width)


def _join(words: Sequence[str], width: int) -> list[str]:
    """Join words into lines of at most `width` terminal columns, as many words per line as fit."""
    lines = [""]
    for number, word in enumerate(words):
        joined = f"{lines[-1]} {word}" if number else word
        if display_width(joined) <= width or not lines[-1]:
            lines[-1] = joined
        else:
            lines.append(word)
    return lines


def _hang(text: str, width: int) -> list[str]:
    first, *others = _fill(printable(text), width - len(GAP))
    return [first, *(GAP + line for line in others)]


def _cut(line: str, width: int) -> list[str]:
    pieces = []
    while display_width(line) > width:
        head = _head(line, width)
        pieces.append(head)
        line = line[len(head) :]
    return [*pieces, line] if line or not pieces else pieces


def _width(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _head(text: str, width: int) -> str:
    """Return the longest beginning of a text that fits `width` terminal columns, at least one character."""
    used = 0
    for index, character in enumerate(text):
        used += _width(character)
        if used > width and index:
            return text[:index]
    return text


def _shrink(widths: list[int], least: list[int], total: int) -> list[int]:
    """Narrow the widest table column that is still above its least width, step by step, until all columns together
    take `total` or none can be narrowed."""
    widths = list(widths)
    excess = sum(widths) + len(GAP) * (len(widths) - 1) - total
    while excess > 0:
        wide = [i for i, column in enumerate(widths) if column > least[i]]
        if not wide:
            return widths
        widths[max(wide, key=lambda i: widths[i])] -= 1
        excess -= 1
    return widths


def _row(row: Sequence[str], widths: Sequence[int], aligns: str, kinds: Sequence[str], style: Style) -> list[str]:
    wrapped = [wrap(cell, column) for cell, column in zip(row, widths, strict=True)]
    height = max((len(lines) for lines in wrapped), default=0)
    return [
        GAP.join(
            _pad(lines[i] if i < len(lines) else "", column, letter, kind, style)
            for lines, column, letter, kind in zip(wrapped, widths, aligns, kinds, strict=True)
        )
        for i in range(height)
    ]


def _pad(text: str, width: int, letter: str, kind: str, style: Style) -> str:
    blanks = " " * (width - display_width(text))
    shown = style(text, kind) if kind else text
    return blanks + shown if letter == "r" else shown + blanks
