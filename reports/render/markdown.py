"""Writes blocks as Markdown, for job summaries and for files that people read. Figures are left to the page."""

from collections.abc import Sequence

from reports.document.blocks import (
    Block,
    Bullets,
    Chart,
    Command,
    Facts,
    FindingList,
    Fold,
    Heading,
    Multiples,
    Part,
    Prose,
    Table,
)
from rules.logs.text import printable


def render_markdown(blocks: Sequence[Block]) -> str:
    """Return all blocks as Markdown, with a blank line between two of them and no line break at the end."""
    return "\n\n".join(part for block in blocks for part in _parts(block) if part)


def escape(text: str) -> str:
    """Return `text` on one line with Markdown's and HTML's special characters escaped."""
    text = printable(text.replace("\u00a0", " "))
    for char in "\\`*_[]|#":
        text = text.replace(char, f"\\{char}")
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _parts(block: Block) -> list[str]:
    match block:
        case Heading(word=word, text=text, note=note):
            return [f"## {f'{escape(word)}: ' if word else ''}{escape(text)}{f' ({escape(note)})' if note else ''}"]
        case Prose(text=text):
            return [escape(text)]
        case Bullets(items=items):
            return ["\n".join(f"- {escape(item)}" for item in items)]
        case Facts(facts=facts):
            return ["\n".join(f"- {escape(fact.name)}: {escape(fact.line)}" for fact in facts)]
        case Command(text=text):
            return ["\n".join(f"    {printable(line)}" for line in text.split("\n"))]
        case Table():
            return [escape(block.caption), _table(block)]
        case FindingList():
            return [_findings(block)]
        case Fold(summary=summary, blocks=blocks):
            return [escape(summary), render_markdown(blocks)]
        case Part(heading=heading, blocks=blocks):
            return [*_parts(heading), render_markdown(blocks)]
        case Chart(lead=lead, table=table):
            return [escape(lead), *(_parts(table) if table else ())]
        case Multiples():
            return []


def _table(table: Table) -> str:
    """Return a table as Markdown; the head of a column includes the column's help text up to its first semicolon."""
    names = [f"{c.name} ({c.help.partition(';')[0]})" if c.help else c.name for c in table.columns]
    rows = [[cell.line for cell in row] for row in table.rows]
    return _grid(names, rows, ["--:" if column.is_number else ":--" for column in table.columns])


def _findings(block: FindingList) -> str:
    """Return all findings of rule checks in one Markdown table; findings that are equal but for their places share a
    row."""
    rows = [
        (group.severity, group.code, row.where, row.sentence, row.remedy)
        for group in block.groups
        for row in group.rows
    ]
    rows += [(group.severity, group.code, group.more, "", "") for group in block.groups if group.more]
    return _grid(("severity", "rule", "where", "what", "fix"), rows, [":--"] * 5)


def _grid(names: Sequence[str], rows: Sequence[Sequence[str]], rules: Sequence[str]) -> str:
    lines = [names, *rows]
    head, *body = ["| " + " | ".join(escape(text) for text in line) + " |" for line in lines]
    return "\n".join([head, "|" + "|".join(rules) + "|", *body])
