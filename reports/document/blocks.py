"""Defines the blocks that the page and commands' outputs consist of: tables, charts and paragraphs. Every string in a
block is ready to print.

`reports.render` writes the same blocks as HTML, terminal text and Markdown. It escapes and places blocks, but does
not format, choose or compute values. Figures are drawn in HTML only. A page has groups of comparable results, a group
has sections, and a section has blocks. The class of a block decides which template macro places the block.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeVar, cast

from markupsafe import Markup

from reports.charts.figure import Figure
from reports.text.formatting import MISSING

_Item = TypeVar("_Item")


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """Cell of a table. `sort` is the sort key (cells with an empty key sort last); `kind` is a CSS class.

    `sub` is a second line in quieter type. `anchor` is the id of the part of the page that the text links to; `id` is
    the cell's own id, to which other parts can link.
    """

    text: str
    sort: str = ""
    kind: str = ""
    note: str = ""
    anchor: str = ""
    sub: str = ""
    id: str = ""

    @property
    def line(self) -> str:
        """Text of a table cell as one line, for output formats in which a cell has no second line."""
        return f"{self.text} ({self.sub})" if self.sub else self.text


@dataclass(frozen=True, kw_only=True, slots=True)
class TableColumn:
    """Column of a table. `is_below`: the column's cells are too long for a row, so a terminal prints them on lines
    below the row.

    `names_row`: the column is needed to tell rows apart. Where a table is too wide for a terminal, it is printed in
    parts; each part repeats the table's first column and the columns with `names_row`.
    """

    name: str
    is_number: bool = False
    help: str = ""
    is_below: bool = False
    names_row: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """Table whose first column names its rows. Numeric columns sort by the number at the start of their text.

    `layout` is "records" if the table is too wide for a terminal, which then shows each row as a heading with a line
    per column.
    """

    id: str
    caption: str
    columns: tuple[TableColumn, ...]
    rows: tuple[tuple[Cell, ...], ...]
    is_sortable: bool = False
    style: str = ""
    layout: Literal["grid", "records"] = "grid"

    @property
    def is_numeric(self) -> bool:
        """Whether all columns of a table except the first hold numbers, so that one CSS class suffices for all
        cells."""
        return len(self.columns) > 1 and all(column.is_number for column in self.columns[1:])

    @property
    def is_long(self) -> bool:
        """Whether a table scrolls in a box of its own, under a fixed head. Tables of more than 30 rows do; tables of
        verdicts never do, as they are always shown whole."""
        return len(self.rows) > 30 and self.style != "verdicts"

    @property
    def heading(self) -> str:
        """Caption of a table; if the table scrolls, the number of rows is added."""
        return f"{self.caption}; {len(self.rows)} rows" if self.is_long else self.caption


def numeric(name: str, help_: str = "") -> TableColumn:
    """Return a right-aligned table column of numbers, with its name and a help text."""
    return TableColumn(name=name, is_number=True, help=help_)


def text_table(
    columns: Sequence[str | TableColumn],
    rows: Iterable[Sequence[object]],
    *,
    numbers: Collection[str] = (),
    caption: str = "",
    id_: str = "",
    is_sortable: bool = False,
    style: str = "",
) -> Table:
    """Return a table of cells and plain values, None meaning unknown; `numbers` names the right-aligned columns.

    Raises ValueError when a row has another number of cells than there are columns.
    """
    made = [tuple(_cell(value) for value in row) for row in rows]
    if wrong := next((row for row in made if len(row) != len(columns)), None):
        raise ValueError(f"a row of {len(wrong)} cells in a table of {len(columns)} columns: {wrong!r}")
    return Table(
        id=id_,
        caption=caption,
        columns=tuple(
            column if isinstance(column, TableColumn) else TableColumn(name=column, is_number=column in numbers)
            for column in columns
        ),
        rows=tuple(made),
        is_sortable=is_sortable,
        style=style,
    )


def _cell(value: object) -> Cell:
    return value if isinstance(value, Cell) else Cell(text=MISSING if value is None else str(value))


Shown = (
    tuple[str | TableColumn | None, str | Callable[[_Item], object]]
    | tuple[str | TableColumn | None, str | Callable[[_Item], Any], Callable[[Any], object]]
)
"""Specification of a table column as a tuple: the column, the value that it shows for each item, and optionally the
function that formats the value. The value is given as a field's name ('run.log.seed' for a nested field) or as a
function of the item. If the column is None, the table leaves it out."""


def table_of(
    items: Iterable[_Item],
    columns: Iterable[Shown[_Item]],
    *,
    caption: str = "",
    id_: str = "",
    is_sortable: bool = False,
    style: str = "",
) -> Table:
    """Return a table with one row per item, and with the columns that the specifications describe. A value of None is
    shown as unknown, without calling the column's formatter."""
    shown = [(column, _shows(*how)) for column, *how in columns if column is not None]
    rows = [[show(item) for _, show in shown] for item in items]
    return text_table(
        [column for column, _ in shown], rows, caption=caption, id_=id_, is_sortable=is_sortable, style=style
    )


def _shows(value: Any, form: Callable[[Any], object] | None = None) -> Callable[[Any], object]:
    """Return the function that makes a table column's cell from an item: it reads a field and formats it."""
    read = partial(_member, value.split(".")) if isinstance(value, str) else value
    if form is None:
        return cast(Callable[[Any], object], read)
    return lambda item: None if (found := read(item)) is None else form(found)


def _member(names: Sequence[str], item: object) -> object:
    """Return the value of an item's nested field, given the path of names; None where a field on the way is None."""
    for name in names:
        item = None if item is None else getattr(item, name)
    return item


@dataclass(frozen=True, kw_only=True, slots=True)
class Chart:
    """Chart of a page: a figure, and the table of the values that the figure shows. `lead` is the sentence that the
    figure supports. If `table` is None, `table_note` says which other table has the values.

    `heading` is empty where the heading of the page's section is enough. `views` are drawings of the same data over
    different horizontal axes, each with the name under which a reader chooses it; the first one is `figure`. `series`
    are the colour numbers and names of the lines that a reader may hide.
    """

    figure: Figure
    heading: str = ""
    lead: str = ""
    table: Table | None = None
    table_note: str = ""
    views: tuple[tuple[str, Figure], ...] = ()
    series: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Multiples:
    """Row of small charts side by side: one per configuration, all on the same scales, or one per quantity."""

    drawings: tuple[Markup, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Fact:
    """Named value on a page; `note` adds an explanation or an uncertainty."""

    name: str
    value: str
    unit: str = ""
    note: str = ""
    is_code: bool = False
    brief: str = ""
    """Short form of a named value, shown while the block with the value is folded."""

    @property
    def line(self) -> str:
        """Named value with its unit and note, as one line of text."""
        text = f"{self.value} {self.unit}".rstrip()
        return f"{text} ({self.note})" if self.note else text


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """List of named values. Styles: "numbers" for key numbers in large type, "rules" for codes of rules with a text
    each, "codes" for codes of rules one after the other on as few lines as possible."""

    facts: tuple[Fact, ...]
    style: Literal["", "numbers", "rules", "codes"] = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Prose:
    """Paragraph of a page: a lead below a heading, a sentence about something absent, or a note."""

    text: str
    kind: Literal["lead", "note", "absent", "status"] = "lead"


@dataclass(frozen=True, kw_only=True, slots=True)
class Bullets:
    """Bulleted list of sentences; a list of `warnings` has a frame."""

    items: tuple[str, ...]
    kind: Literal["warnings", "missing", "list"] = "missing"


@dataclass(frozen=True, kw_only=True, slots=True)
class Heading:
    """Heading on a page. `word` is a verdict before the text, in CSS class `kind`; `note` follows the text in quieter
    type."""

    text: str
    word: str = ""
    kind: str = ""
    note: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Command:
    """Command line, or other text, that a reader can copy from the page."""

    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class FindingEntry:
    """Finding of a rule check at one place in a log or file, or at several places with equal findings. Empty texts
    are not printed."""

    where: str
    what: str
    found: str = ""
    expected: str = ""
    remedy: str = ""
    sub: str = ""

    @property
    def sentence(self) -> str:
        """Texts of a finding of a rule check as one line: 'opt_adagrad_epsilon is not what Closed allows; found
        1e-07; expected 1e-08'."""
        said = (("", self.what), ("found ", self.found), ("expected ", self.expected))
        return "; ".join(f"{word}{text}" for word, text in said if text)


@dataclass(frozen=True, kw_only=True, slots=True)
class FindingGroup:
    """All findings of one rule. `title` states that the rule's demand is not met; `more` says how many further
    findings are not listed in `rows`."""

    id: str
    code: str
    title: str
    severity: str
    icon: str
    citation: str
    times: str
    rows: tuple[FindingEntry, ...]
    more: str = ""
    is_open: bool = True

    @property
    def table(self) -> Table:
        """Table of a rule's findings, a row each; a column that is empty in all rows is left out."""
        heads = ("Where", "What", "Found", "Expected", "How to fix")
        cells = [(row.where, row.what, row.found, row.expected, row.remedy) for row in self.rows]
        used = [index for index in range(5) if index < 2 or any(row[index] for row in cells)]
        rows = [
            tuple(
                Cell(text=texts[index] or MISSING) if index else Cell(text=row.where, kind="code", sub=row.sub)
                for index in used
            )
            for row, texts in zip(self.rows, cells, strict=True)
        ]
        if self.more:
            rows.append((Cell(text=self.more), *(Cell(text=MISSING) for _ in used[1:])))
        return Table(
            id=self.id,
            caption=f"Findings of {self.code}",
            columns=tuple(TableColumn(name=heads[index]) for index in used),
            rows=tuple(rows),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class FindingList:
    """Findings grouped by rule, errors first, with buttons to filter by severity where there are several
    severities."""

    id: str
    groups: tuple[FindingGroup, ...]
    choices: tuple[tuple[str, str], ...] = ()
    """Filters that a reader can choose, as (severity or "all", label)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fold:
    """Blocks of a page folded behind one line, their summary, which opens them."""

    summary: str
    blocks: "tuple[Block, ...]"
    is_open: bool = False
    id: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """Heading of a page with the blocks that belong to it."""

    heading: Heading
    blocks: "tuple[Block, ...]"


def facts_part(title: str, facts: Iterable[tuple[str, str]]) -> Part:
    """Return a heading with named values below it; names with an empty value are left out."""
    said = tuple(Fact(name=name, value=value) for name, value in facts if value)
    return Part(heading=Heading(text=title), blocks=(Facts(facts=said),))


Block = Table | Chart | Multiples | Facts | Prose | Bullets | Heading | Command | FindingList | Fold | Part


MOST_FOLDS = 24


def in_portions(folds: Sequence[Fold]) -> tuple[Fold, ...]:
    """Return up to MOST_FOLDS folded blocks unchanged; more are put into further folds of MOST_FOLDS each."""
    if len(folds) <= MOST_FOLDS:
        return tuple(folds)
    return tuple(
        Fold(summary=f"Configurations {words}", blocks=tuple(part)) for words, part in portions(folds, MOST_FOLDS)
    )


def portions(items: Sequence[_Item], most: int) -> list[tuple[str, Sequence[_Item]]]:
    """Split items into parts of at most `most`, each with the numbers of its first and last item: '25 to 48'."""
    parts = ((start, items[start : start + most]) for start in range(0, len(items), most))
    return [(f"{start + 1} to {start + len(part)}", part) for start, part in parts]
