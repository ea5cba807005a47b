"""How `diff` shows two configurations: what differs, by section, then how much is alike."""

from collections.abc import Sequence
from itertools import groupby

import click

from harness.cli.escaping import markdown_safe
from harness.cli.table import echo_table, printable, terminal_width, wrap
from reports.comparison.difference import SettingsDifference
from reports.comparison.records import Setting, SettingRow

_NOT_SAID = "(not said)"


def echo_difference(difference: SettingsDifference, *, with_identical: bool) -> None:
    _echo(f"A  {difference.a}")
    _echo(f"B  {difference.b}")
    _echo_rows(difference.differing)
    click.echo()
    _echo(summary(difference) + ("" if with_identical or not difference.identical else " (-v lists them)"))
    for line in _untold(difference):
        _echo(line)
    if with_identical:
        _echo_rows(difference.identical)


def _echo_rows(rows: Sequence[SettingRow]) -> None:
    """A table per section; where a side's values all have one source, it stands in the heading."""
    for section, grouped in groupby(rows, key=lambda row: row.section):
        of_section = list(grouped)
        a, b = [row.a for row in of_section], [row.b for row in of_section]
        click.echo()
        names = [section, _heading("A", a), _heading("B", b)]
        echo_table(names, list(zip([row.name for row in of_section], _told(a), _told(b), strict=True)), "lll")


def _common_source(settings: Sequence[Setting | None]) -> str | None:
    sources = {setting.source for setting in settings if setting is not None}
    return sources.pop() if len(sources) == 1 else None


def _heading(side: str, settings: Sequence[Setting | None]) -> str:
    source = _common_source(settings)
    return f"{side}  [{source}]" if source is not None and len(settings) > 1 else side


def _told(settings: Sequence[Setting | None]) -> list[str]:
    is_common = _common_source(settings) is not None and len(settings) > 1
    return [
        _value(setting) if setting is None or is_common else f"{_value(setting)}  [{setting.source}]"
        for setting in settings
    ]


def summary(difference: SettingsDifference) -> str:
    return f"{len(difference.differing)} differ, {len(difference.identical)} identical"


def difference_markdown(difference: SettingsDifference, *, with_identical: bool) -> str:
    """A heading and one table per section."""
    parts = [f"## {markdown_safe(difference.a)} and {markdown_safe(difference.b)}: {summary(difference)}"]
    rows = [*difference.differing, *(difference.identical if with_identical else ())]
    if rows:
        lines = ["| section | name | A | B | source of A | source of B |", "|---|---|---|---|---|---|"]
        for row in rows:
            cells = (row.section, row.name, _value(row.a), _value(row.b), _source(row.a), _source(row.b))
            lines.append("| " + " | ".join(markdown_safe(cell) for cell in cells) + " |")
        parts.append("\n".join(lines))
    return "\n\n".join([*parts, *_untold(difference)])


def _untold(difference: SettingsDifference) -> list[str]:
    """One line per side for what it says nothing of."""
    sides = {side: [section for of, section in difference.untold if of == side] for side in ("a", "b")}
    return [
        f"{side.upper()} says nothing of {', '.join(sections)}; not compared."
        for side, sections in sides.items()
        if sections
    ]


def _value(setting: Setting | None) -> str:
    if setting is None:
        return _NOT_SAID
    return setting.value or "(none)"


def _source(setting: Setting | None) -> str:
    return "" if setting is None else setting.source


def _echo(text: str) -> None:
    for line in wrap(printable(text), terminal_width()):
        click.echo(line)
