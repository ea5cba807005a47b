"""What a document says, every string ready to print: the page, and what a command prints.

A document is blocks. `reports.render` writes the same blocks as HTML, for a terminal and as Markdown; renderers
escape and place, they format, choose and compute nothing. Figures are drawn in HTML only. The page is groups of
comparable results, a group is sections, a section is blocks; the macro that places a block goes by its class.
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
    """One table cell. `sort` is what the column is sorted by (empty sorts last); `kind` is a style class.

    `sub` is a second, quieter line. `anchor` is the id of a part of this page that the text leads to, `id` makes
    the cell such a part.
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
        """Both lines in one, for output that has no second."""
        return f"{self.text} ({self.sub})" if self.sub else self.text


@dataclass(frozen=True, kw_only=True, slots=True)
class TableColumn:
    """`is_below`: too long for a terminal's line, so it has a line of its own below its row there.

    `names_row`: the row is not known without it, so a terminal repeats it where a table is too wide for one line, as
    it does with the first column of each table.
    """

    name: str
    is_number: bool = False
    help: str = ""
    is_below: bool = False
    names_row: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """A table whose first column names its rows. Numeric columns sort by the number that their text begins with.

    `layout` "records": too wide for a terminal, which shows each row as a heading with one line per column there.
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
        """Whether all columns but the first hold numbers, so that one class says it for all cells."""
        return len(self.columns) > 1 and all(column.is_number for column in self.columns[1:])

    @property
    def is_long(self) -> bool:
        """Whether it scrolls in a box of its own, under a head that stays; verdicts are all seen at once."""
        return len(self.rows) > 30 and self.style != "verdicts"

    @property
    def heading(self) -> str:
        """The caption; of a table that scrolls also how many rows there are."""
        return f"{self.caption}; {len(self.rows)} rows" if self.is_long else self.caption


def numeric(name: str, help_: str = "") -> TableColumn:
    """A column of numbers."""
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
    """A table of cells and plain values, None being not known; `numbers` names columns that are set to the right.

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
"""A column, the value that it shows of an item (a member's name, 'run.log.seed' for one further down, or a function),
and the form that the value is printed in. None in place of a column is no column."""


def table_of(
    items: Iterable[_Item],
    columns: Iterable[Shown[_Item]],
    *,
    caption: str = "",
    id_: str = "",
    is_sortable: bool = False,
    style: str = "",
) -> Table:
    """Make one row per item. A value that is None is not known, whatever its form."""
    shown = [(column, _shows(*how)) for column, *how in columns if column is not None]
    rows = [[show(item) for _, show in shown] for item in items]
    return text_table(
        [column for column, _ in shown], rows, caption=caption, id_=id_, is_sortable=is_sortable, style=style
    )


def _shows(value: Any, form: Callable[[Any], object] | None = None) -> Callable[[Any], object]:
    """How a column's cell is made of an item."""
    read = partial(_member, value.split(".")) if isinstance(value, str) else value
    if form is None:
        return cast(Callable[[Any], object], read)
    return lambda item: None if (found := read(item)) is None else form(found)


def _member(names: Sequence[str], item: object) -> object:
    """The value of a member of a member; None where one on the way is None."""
    for name in names:
        item = None if item is None else getattr(item, name)
    return item


@dataclass(frozen=True, kw_only=True, slots=True)
class Chart:
    """A figure with the sentence it supports and the table of the same facts, or where on the page they are.

    The heading is empty where that of the section is enough.
    `views` are further drawings of the same facts, by what their reader chooses; the first is `figure`.
    `series` are the hues of the figure that a reader may hide, with the names of what they show.
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
    """Small drawings side by side, one per configuration, all on the same scales."""

    drawings: tuple[Markup, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Fact:
    """One named value; `note` says more of it, or how sure it is."""

    name: str
    value: str
    unit: str = ""
    note: str = ""
    is_code: bool = False

    @property
    def line(self) -> str:
        """All but the name."""
        text = f"{self.value} {self.unit}".rstrip()
        return f"{text} ({self.note})" if self.note else text


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """Facts by name: "numbers" are large, "rules" are codes with what they say, "codes" short ones in one line."""

    facts: tuple[Fact, ...]
    style: Literal["", "numbers", "rules", "codes"] = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Prose:
    """One paragraph: a lead under a heading, a sentence about what is absent, or a note."""

    text: str
    kind: Literal["lead", "note", "absent", "status"] = "lead"


@dataclass(frozen=True, kw_only=True, slots=True)
class Bullets:
    """A list; `warnings` have a frame."""

    items: tuple[str, ...]
    kind: Literal["warnings", "missing", "list"] = "missing"


@dataclass(frozen=True, kw_only=True, slots=True)
class Heading:
    """`word` is a verdict before the text, of style class `kind`; `note` is what follows it, quieter."""

    text: str
    word: str = ""
    kind: str = ""
    note: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Command:
    """Text to copy."""

    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class FindingRow:
    """What a rule found at one place, or at several alike; an empty text is not said."""

    where: str
    what: str
    found: str = ""
    expected: str = ""
    remedy: str = ""
    sub: str = ""

    @property
    def sentence(self) -> str:
        """'opt_adagrad_epsilon is not what Closed allows; found 1e-07; expected 1e-08'."""
        said = (("", self.what), ("found ", self.found), ("expected ", self.expected))
        return "; ".join(f"{word}{text}" for word, text in said if text)


@dataclass(frozen=True, kw_only=True, slots=True)
class FindingGroup:
    """All findings of one rule; `title` says what is not met, `more` counts those that are not among the rows."""

    id: str
    code: str
    title: str
    severity: str
    icon: str
    citation: str
    times: str
    rows: tuple[FindingRow, ...]
    more: str = ""
    is_open: bool = True

    @property
    def table(self) -> Table:
        """The rows under heads; a column in which nothing is said is left out."""
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
    """Findings by rule, worst first, with a choice of severities where there are several."""

    id: str
    groups: tuple[FindingGroup, ...]
    choices: tuple[tuple[str, str], ...] = ()
    """(severity or "all", words)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fold:
    """Blocks behind one line, which says what is behind it."""

    summary: str
    blocks: "tuple[Block, ...]"
    is_open: bool = False
    id: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """A heading with the blocks that belong to it."""

    heading: Heading
    blocks: "tuple[Block, ...]"


def facts_part(title: str, facts: Iterable[tuple[str, str]]) -> Part:
    """A heading with facts by name; an empty one is not said."""
    said = tuple(Fact(name=name, value=value) for name, value in facts if value)
    return Part(heading=Heading(text=title), blocks=(Facts(facts=said),))


Block = Table | Chart | Multiples | Facts | Prose | Bullets | Heading | Command | FindingList | Fold | Part


MOST_FOLDS = 24


def in_portions(folds: Sequence[Fold]) -> tuple[Fold, ...]:
    """`folds` as they are up to MOST_FOLDS of them; more are folded once again, so many at a time."""
    if len(folds) <= MOST_FOLDS:
        return tuple(folds)
    return tuple(
        Fold(summary=f"Configurations {words}", blocks=tuple(part)) for words, part in portions(folds, MOST_FOLDS)
    )


def portions(items: Sequence[_Item], most: int) -> list[tuple[str, Sequence[_Item]]]:
    """At most so many items at a time, with their numbers: '25 to 48'."""
    parts = ((start, items[start : start + most]) for start in range(0, len(items), most))
    return [(f"{start + 1} to {start + len(part)}", part) for start, part in parts]
