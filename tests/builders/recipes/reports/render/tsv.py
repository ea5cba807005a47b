"""The tables of a document as tab-separated values, to paste into a spreadsheet."""

from collections.abc import Sequence

from reports.document.blocks import Block, Fold, Part, Table
from reports.render.csv import inert


def render_tsv(blocks: Sequence[Block]) -> str:
    """A head and one line per row of every table, a blank line between two; all other blocks are left out."""
    return "\n\n".join(_table(table) for table in _tables(blocks))


def _tables(blocks: Sequence[Block]) -> list[Table]:
    inner = [_tables(block.blocks) if isinstance(block, Fold | Part) else [block] for block in blocks]
    return [block for part in inner for block in part if isinstance(block, Table)]


def _table(table: Table) -> str:
    rows = [[column.name for column in table.columns], *([cell.line for cell in row] for row in table.rows)]
    return "\n".join("\t".join(inert(text.replace("\u00a0", " ")) for text in row) for row in rows)
