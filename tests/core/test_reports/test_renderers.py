"""One document, three renderers: what a block says is on the page, the terminal and in Markdown, and stays text."""

from collections.abc import Callable
from html import unescape
from types import SimpleNamespace

import pytest

from reports.document.blocks import (
    Block,
    Bullets,
    Cell,
    Command,
    Fact,
    Facts,
    FindingEntry,
    FindingGroup,
    FindingList,
    Fold,
    Heading,
    Part,
    Prose,
    Table,
    TableColumn,
    numeric,
    table_of,
    text_table,
)
from reports.render.html import _environment
from reports.render.markdown import render_markdown
from reports.render.terminal import ansi, render_terminal
from reports.text.formatting import MISSING

EVIL = "\x1b[2J\u202e|<b>`*_"
GROUP = FindingGroup(
    id="g", code="HP101", title="as allowed", severity="error", icon="x", citation="rules.adoc", times="2×",
    rows=(FindingEntry(where="a.txt:3", what="differs", found="1", expected="2", remedy="run again"),), more="7 more",
)  # fmt: skip


def html(blocks: tuple[Block, ...]) -> str:
    return unescape(str(_environment().get_template("macros.html.j2").module.blocks(blocks, 2)))  # type: ignore[attr-defined]


RENDERERS: tuple[Callable[[tuple[Block, ...]], str], ...] = (html, render_terminal, render_markdown)


@pytest.mark.parametrize("render", RENDERERS)
@pytest.mark.parametrize(
    ("block", "words"),
    [
        (Heading(word="VALID", kind="valid", text="results", note="5 logs"), ["VALID", "results", "5 logs"]),
        (Prose(text="Nothing is known."), ["Nothing is known."]),
        (Bullets(items=("first", "second")), ["first", "second"]),
        (Facts(facts=(Fact(name="score", value="7 s", note="measured"),)), ["score", "7 s", "measured"]),
        (Facts(facts=(Fact(name="ST101", value="is a log"),), style="rules"), ["ST101", "is a log"]),
        (
            Facts(facts=(Fact(name="time", value="7", unit="s", note="mean"),), style="numbers"),
            ["time", "7", "s", "mean"],
        ),
        (Command(text="dlrmbench list"), ["dlrmbench list"]),
        (text_table(("name", "runs"), [("tiny", None)], caption="all"), ["name", "runs", "tiny", "—", "all"]),
        (FindingList(id="f", groups=(GROUP,)), ["HP101", "a.txt:3", "differs", "1", "2", "run again", "7 more"]),
        (Fold(summary="more", blocks=(Prose(text="inside"),)), ["more", "inside"]),
        (Part(heading=Heading(text="head"), blocks=(Prose(text="inside"),)), ["head", "inside"]),
    ],
    ids=lambda value: value.block if hasattr(value, "block") else "",
)
def test_every_renderer_says_all_that_a_block_says(
    render: Callable[[tuple[Block, ...]], str], block: Block, words: list[str]
) -> None:
    shown = render((block,))
    assert [word for word in words if word not in shown] == []


@pytest.mark.parametrize("render", [render_terminal, render_markdown])
def test_hostile_text_stays_text(render: Callable[[tuple[Block, ...]], str]) -> None:
    blocks = (
        Heading(word=EVIL, text=EVIL, note=EVIL),
        Prose(text=EVIL),
        Bullets(items=(EVIL,)),
        Command(text=EVIL),
        Facts(facts=(Fact(name=EVIL, value=EVIL, note=EVIL),)),
        text_table((EVIL,), [(EVIL,)], caption=EVIL),
        Fold(summary=EVIL, blocks=(Part(heading=Heading(text=EVIL), blocks=(Prose(text=EVIL),)),)),
    )
    shown = render(blocks)
    assert all(character.isprintable() or character == "\n" for character in shown)


def test_markdown_is_escaped_in_cells_and_texts() -> None:
    shown = render_markdown((text_table(("a",), [("|<b>`*_[x](y)",)]), Prose(text="# no heading")))
    assert "| \\|&lt;b&gt;\\`\\*\\_\\[x\\](y) |" in shown
    assert shown.endswith("\\# no heading")


def test_a_wide_table_is_records_and_a_long_column_is_below_its_row() -> None:
    columns = (
        TableColumn(name="set"),
        TableColumn(name="score", is_number=True),
        TableColumn(name="folder", is_below=True),
    )
    rows = ((Cell(text="tiny", sub="results/a"), Cell(text="7 s"), Cell(text="/data/results")),)
    grid = Table(id="", caption="", columns=columns, rows=rows)
    assert render_terminal((grid,)) == "set   score\n----  -----\ntiny    7 s\n    /data/results"
    records = Table(id="", caption="", columns=columns[:2], rows=(rows[0][:2],), layout="records")
    assert render_terminal((records,)) == "tiny  results/a\n  score  7 s"


def test_a_list_below_a_row_is_broken_at_blanks_and_a_path_is_not() -> None:
    columns = (
        TableColumn(name="set"),
        TableColumn(name="where", is_below=True),
        TableColumn(name="by", is_below=True),
    )
    rows = (
        (Cell(text="tiny"), Cell(text="results/a long name of a folder"), Cell(text="on a system; by code 1; late")),
    )
    shown = render_terminal((Table(id="", caption="", columns=columns, rows=rows),), width=24)
    assert shown.splitlines()[2:] == [
        "tiny",
        "    results/a long name of a folder",
        "    on a system; by code",
        "    1; late",
    ]


def test_colours_take_no_room_and_only_verdicts_have_them() -> None:
    table = Table(
        id="",
        caption="",
        columns=(TableColumn(name="check"), TableColumn(name="value")),
        rows=((Cell(text="ok", kind="ok"), Cell(text="4 cores")),),
    )
    shown = render_terminal((table,), style=ansi)
    assert "\x1b[32mok\x1b[0m     4 cores" in shown
    assert shown.replace("\x1b[32m", "").replace("\x1b[0m", "") == render_terminal((table,))


def test_a_row_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="2 cells in a table of 1"):
        text_table(["a"], [["x", "y"]])


def test_a_column_is_a_name_a_value_and_a_form() -> None:
    """A value is a member, a member's member, or a function; None is not known, whatever its form."""
    items = [SimpleNamespace(name="a", run=SimpleNamespace(seed=7)), SimpleNamespace(name="b", run=None)]
    table = table_of(
        items,
        (
            ("Name", "name"),
            (numeric("Seed"), "run.seed", "{:03d}".format),
            ("Length", lambda item: len(item.name)),
            (None, "missing"),
        ),
    )
    assert [column.name for column in table.columns] == ["Name", "Seed", "Length"]
    assert [[cell.text for cell in row] for row in table.rows] == [["a", "007", "1"], ["b", MISSING, "1"]]
