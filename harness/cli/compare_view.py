"""How `compare` shows comparisons: the sentence first, then the factors, then what was different."""

from collections.abc import Sequence

import click

from harness.cli.escaping import markdown_safe
from harness.cli.table import echo_table, printable, style, terminal_width, wrap
from reports.comparison.comparison import Comparison
from reports.comparison.export import FACTOR_COLUMNS, comparison_frame, factor_cells, method_line, remarks
from reports.comparison.wording import sentence
from reports.tables.columns import frame_csv

_COLOURS = {"faster": "green", "slower": "red", "no difference shown": "cyan", "inconclusive": "yellow"}
_MAX_CHANGES = 12


def echo_comparisons(comparisons: Sequence[Comparison]) -> None:
    for comparison in comparisons:
        _echo_comparison(comparison)
        click.echo()
    if line := method_line(comparisons):
        _echo(line)


def _echo_comparison(comparison: Comparison) -> None:
    word = "REFUSED" if comparison.refusal is not None else comparison.verdict.upper()
    colour = _COLOURS[comparison.verdict] if comparison.refusal is None else "red"
    title = f"{printable(comparison.new)} against {printable(comparison.base)}"
    if comparison.invalid_sides:
        word, colour = f"INVALID ({' and '.join(comparison.invalid_sides)}), {word.lower()}", "red"
    click.echo(f"{style(word, colour=colour, bold=True)}  {title}")
    _echo(sentence(comparison), indent="  ")
    if comparison.refusal is not None:
        return
    click.echo()
    echo_table(FACTOR_COLUMNS, [factor_cells(factor) for factor in comparison.factors], "lrrlrrl")
    if comparison.changes:
        click.echo()
        shown = comparison.changes[:_MAX_CHANGES]
        echo_table(("differs", "base", "new"), shown, "lll")
        if len(comparison.changes) > len(shown):
            _echo(f"and {len(comparison.changes) - len(shown)} more; 'dlrmbench diff' lists all.")
    if told := remarks(comparison):
        click.echo()
        for remark in told:
            _echo(remark)


def compare_csv(comparisons: Sequence[Comparison]) -> str:
    """One row per factor."""
    return frame_csv(comparison_frame(comparisons))


def compare_markdown(comparisons: Sequence[Comparison]) -> str:
    """For job summaries: a heading, the sentence and a table per comparison."""
    parts = []
    for comparison in comparisons:
        word: str = "refused" if comparison.refusal is not None else comparison.verdict
        if comparison.invalid_sides:
            word = f"INVALID ({' and '.join(comparison.invalid_sides)}), {word}"
        parts.append(f"## {markdown_safe(comparison.new)} against {markdown_safe(comparison.base)}: {word}")
        parts.append(markdown_safe(sentence(comparison)))
        if comparison.refusal is not None:
            continue
        parts.append(_table(FACTOR_COLUMNS, [factor_cells(factor) for factor in comparison.factors]))
        if comparison.changes:
            parts.append(_table(("differs", "base", "new"), comparison.changes[:_MAX_CHANGES]))
        parts += [markdown_safe(remark) for remark in remarks(comparison)]
    return "\n\n".join([*parts, markdown_safe(method_line(comparisons))]).rstrip()


def _table(columns: Sequence[str], rows: Sequence[Sequence[str | None]]) -> str:
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join("-" if cell is None else markdown_safe(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def _echo(text: str, indent: str = "") -> None:
    for line in wrap(printable(text), terminal_width() - len(indent)):
        click.echo(indent + line)
