"""Tables in LaTeX: every text keeps its characters and none has a meaning to TeX."""

import re
from pathlib import Path

from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from report_builder import write_run_set

from harness.cli import cli
from reports.document.blocks import Cell, Fold, Heading, Prose, TableColumn, numeric, table_of
from reports.render.latex import escape, render_latex

_COMMANDS = re.compile(r"\\(?:text[a-z]+\{(?:U\+[0-9A-F]+)?\}|dots\{\}|[{}$&#_%]|times|pm|geq|leq|to|cdot)")


@given(st.text(max_size=60))
def test_no_text_has_a_meaning_to_tex(text: str) -> None:
    left = _COMMANDS.sub("", escape(text)).replace("$-$", "").replace("$$", "")
    assert not set(left) & set('\\{}$&#_%~^<>|"\n\r\t'), escape(text)
    assert all(char.isprintable() for char in left)


def test_what_a_paper_prints_keeps_its_look() -> None:
    assert escape("5 % of dlrm_tiny, 2.70×, −1 µs") == r"5 \% of dlrm\_tiny, 2.70$\times$, $-$1 \textmu{}s"
    assert escape("◐ INCOMPLETE \u4e00") == r"INCOMPLETE \texttt{U+4E00}"
    assert escape("\x1b[2J\\input{/etc/passwd}") == r"\textbackslash{}x1b[2J\textbackslash{}input\{/etc/passwd\}"


def test_a_table_has_its_heads_sides_and_rows() -> None:
    rows = [("a_b", "1"), ("c", "2")]
    columns = (
        (TableColumn(name="Name"), lambda row: row[0]),
        (numeric("s", "of it; more"), lambda row: Cell(text=row[1])),
    )
    text = render_latex([Prose(text="Said\nof it."), table_of(rows, columns, id_="t", caption="Times")])
    assert (
        text.startswith("% Said")
        and "\n\n\\begin{table}\n\\caption{Times}\n\\label{tab:times}\n\\begin{tabular}{lr}\n" in text
    )
    lines = text.split("\n")
    assert all(line.startswith(("%", "\\")) or line.endswith(r" \\") or not line for line in lines)
    assert {r"Name & s \\", r" & of it \\", r"a\_b & 1 \\", r"c & 2 \\"} <= set(lines)


def test_every_table_has_a_caption_and_a_label_of_its_own() -> None:
    table = table_of([("a", "1")], (("Name", lambda row: row[0]),), id_="t")
    text = render_latex([Heading(text="What differs: 5 %"), table, Fold(summary="more", blocks=(table,))])
    assert text.count("\\caption{What differs: 5 \\%}") == 2
    assert re.findall(r"\\label\{(.*)\}", text) == ["tab:what-differs-5", "tab:what-differs-5-2"]


def test_a_report_is_written_as_latex(tmp_path: Path) -> None:
    folder = write_run_set(tmp_path / "one_set", interrupted=False)
    done = CliRunner().invoke(cli, ["report", str(folder), "--format", "latex", "-o", str(tmp_path / "one.tex")])
    assert done.exit_code == 0, done.output
    text = (tmp_path / "one.tex").read_text()
    assert text.count(r"\begin{tabular}") == text.count(r"\end{tabular}") >= 1 and "Time to train" in text
    assert text.count(r"\caption{") == text.count(r"\label{") == text.count(r"\begin{table}")
    assert "one\\_set (" in text and folder.parent.name not in text.replace("% ", "")
