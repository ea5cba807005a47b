"""Blocks for a terminal: plain-text tables, wrapped and aligned."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.document.blocks import Fact, Facts, TableColumn, text_table
from reports.render.terminal import display_width, render_terminal, wrap
from rules.logs.text import printable


def test_columns_align_and_numbers_are_to_the_right() -> None:
    table = text_table(["name", "runs"], [["dlrm", 10], ["b", None]], numbers=["runs"])
    assert render_terminal([table]) == "name  runs\n----  ----\ndlrm    10\nb        —"


def test_wide_and_combining_characters_keep_columns_aligned() -> None:
    lines = render_terminal([text_table(["a", "b"], [["日本", "x"], ["é", "x"]])]).splitlines()
    assert {display_width(line) for line in lines[2:]} == {7}


def test_escape_sequences_line_breaks_and_bidi_marks_are_shown_not_executed() -> None:
    assert printable("a\x1b[31m\n\u202e\ud800") == r"a\x1b[31m\n\u202e\ud800"


def test_left_aligned_columns_wrap_to_the_width_asked_for() -> None:
    text = render_terminal([text_table(["n", "why"], [[1, "word " * 40]], numbers=["n"])], width=40)
    assert max(map(display_width, text.splitlines())) <= 40
    assert text.split()[4:] == ["1", *["word"] * 40]


def test_what_names_a_row_is_repeated_where_a_table_is_divided() -> None:
    names = [TableColumn(name=name, names_row=name in ("tier", "cache")) for name in ("tier", "cache", *"abcdef")]
    text = render_terminal([text_table(names, [["nand", "5 %", *["12345678"] * 6]])], width=40)
    parts = text.split("\n\n")
    assert len(parts) > 1
    assert all(part.splitlines()[-1].split()[:3] == ["nand", "5", "%"] for part in parts)


def test_names_of_a_row_that_take_half_the_width_are_not_repeated() -> None:
    names = [TableColumn(name=name, names_row=True) for name in ("tier", "cache", *"ab")]
    text = render_terminal([text_table(names, [["nand", "5_of_a_hundred_rows", *["12345678"] * 2]])], width=40)
    assert text.count("nand") == 2
    assert text.count("5_of_a_hundred_rows") == 1


def test_names_that_alone_tell_rows_apart_take_two_thirds_of_the_width() -> None:
    names = [TableColumn(name=name, names_row=name in ("tier", "cache")) for name in ("tier", "cache", *"abc")]
    rows = [["nand", cache, *["12345678"] * 3] for cache in ("5_of_a_hundred_rows", "20_of_a_hundred_rows")]
    parts = render_terminal([text_table(names, rows)], width=40).split("\n\n")
    assert len(parts) > 1 and all("5_of_a_hundred_rows" in part for part in parts)


@given(st.lists(st.lists(st.text(), min_size=3, max_size=3), max_size=5), st.integers(60, 200))
def test_any_cells_make_lines_that_fit_and_can_be_printed(rows: list[list[str]], width: int) -> None:
    text = render_terminal([text_table(["a", "b", "c"], rows)], width=width)
    text.encode("utf-8")
    assert all(display_width(line) <= width for line in text.split("\n"))


@given(st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1), st.integers(2, 20))
def test_wrapping_loses_no_character(word: str, width: int) -> None:
    assert "".join(wrap(word, width)) == word


@pytest.mark.parametrize("width", [20, 30, 40, 60])
def test_ranges_percent_and_commands_stay_whole(width: int) -> None:
    text = "CV 17.4 % (95 %: 10.4 – 50.0 %) and over 100 % later, 81 % (39 – over 100 %) in turns"
    lines = wrap(text, width)
    assert " ".join(lines) == text
    for whole in ("17.4 %", "10.4 – 50.0 %)", "100 %", "81 %", "(39 – over 100 %)"):
        assert any(whole in line for line in lines), whole
    command = "dlrmbench report results/beside-dlrm_tiny-20261127T043036Z/new"
    assert render_terminal((Facts(facts=(Fact(name="report", value=command),)),), width=40).count(command) == 1


@pytest.mark.parametrize("width", [40, 60, 72, 80, 100])
@pytest.mark.parametrize("base", ["1.234 s", "123,456,789 samples"])
def test_a_table_breaks_a_range_at_its_dash_and_never_in_a_number(base: str, width: int) -> None:
    cells = [
        "samples to converge",
        base,
        base,
        "0.1535 (0.06067 – 0.388)",
        "inconclusive: 12 pairs would show 5.1 %",
    ]
    others = ["evaluation and overhead", base, base, "6.51 (3.015 – 19.962)", "below the smallest effect"]
    heads = ["factor", "base", "new", "new / base (interval)", "verdict"]
    table = text_table(heads, [cells, others], numbers=["base"])
    text = render_terminal([table], width=width)
    assert {word for cell in (*cells, *others) for word in cell.split()} <= set(text.split())
    assert all(display_width(line) <= width for line in text.split("\n"))


def test_a_range_is_whole_where_another_column_can_give_way() -> None:
    row = ["a", "0.1535 (0.06067 – 0.388)", "inconclusive: see the page"]
    text = render_terminal([text_table(["factor", "new / base (interval)", "verdict"], [row])], width=42)
    assert "(0.06067 – 0.388)" in text
