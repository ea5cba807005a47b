"""Writes tables as LaTeX for a paper, with the package booktabs; other texts become comments. Figures are left to the
page."""

import re
from collections.abc import Iterator, Sequence
from unicodedata import category

from reports.document.blocks import Block, Bullets, Chart, Facts, FindingList, Fold, Heading, Part, Prose, Table
from rules.logs.text import printable

_SPECIAL = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "_": r"\_", "%": r"\%",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': r"\textquotedbl{}", "×": r"$\times$", "−": "$-$", "±": r"$\pm$", "–": "--", "—": "---",
    "…": r"\dots{}", "µ": r"\textmu{}", "®": r"\textregistered{}", "≥": r"$\geq$", "≤": r"$\leq$", "→": r"$\to$",
    "·": r"$\cdot$", "‘": "`", "’": "'", "“": "``", "”": "''",
}  # fmt: skip
_LATIN_1 = 0xFF
"""Last code point of Latin-1. Characters up to this one are in every LaTeX font and are written unchanged. Later
characters are written as their LaTeX command if they have one in the table above. Of characters without a command,
symbols are left out, and all others are written as their number, such as U+4E2D."""
_LABEL_WORDS = 5


def render_latex(blocks: Sequence[Block]) -> str:
    """Return all blocks as LaTeX, with an empty line between two of them; needs the LaTeX package booktabs.

    Every table has a caption, which is its own or the heading above it, and a label made from the caption:
    'tab:throughput-alone'.
    """
    return "\n\n".join(part for part in _Writer().write(blocks) if part)


def escape(text: str) -> str:
    r"""Return `text` on one line with TeX's special characters escaped: '5 \% of dlrm\_tiny'."""
    return "".join(map(_escaped, printable(text.replace("\u00a0", " ")))).strip()


def _escaped(char: str) -> str:
    if char in _SPECIAL or ord(char) <= _LATIN_1:
        return _SPECIAL.get(char, char)
    return "" if category(char).startswith("S") else rf"\texttt{{U+{ord(char):04X}}}"


class _Writer:
    """Writer of blocks as LaTeX. It remembers the labels already used, and the last heading, which becomes the
    caption of a table without a caption."""

    def __init__(self) -> None:
        self.heading = "Table"
        self.labels: set[str] = set()

    def write(self, blocks: Sequence[Block]) -> Iterator[str]:
        for block in blocks:
            yield from self._parts(block)

    def _parts(self, block: Block) -> Iterator[str]:
        match block:
            case Table():
                yield self._table(block)
            case Heading(word=word, text=text):
                self.heading = text
                yield _comment(f"{word}: {text}" if word else text)
            case Prose(text=text):
                yield _comment(text)
            case Bullets(items=items):
                yield "\n".join(map(_comment, items))
            case Facts(facts=facts):
                yield "\n".join(_comment(f"{fact.name}: {fact.line}") for fact in facts)
            case FindingList(groups=groups):
                heads = ("severity", "rule", "where", "what")
                rows = [
                    (group.severity, group.code, row.where, row.sentence) for group in groups for row in group.rows
                ]
                yield self._floated("Findings", heads, (), rows, "llll")
            case Fold(blocks=blocks):
                yield "\n\n".join(filter(None, self.write(blocks)))
            case Part(heading=heading, blocks=blocks):
                yield "\n\n".join(filter(None, self.write((heading, *blocks))))
            case Chart(table=table):
                if table is not None:
                    yield self._table(table)
            case _:
                return

    def _table(self, table: Table) -> str:
        """Return a table as LaTeX; below a column's name is the column's help text up to its first semicolon."""
        heads, helps = ([column.name for column in table.columns], [c.help.partition(";")[0] for c in table.columns])
        rows = [[cell.line for cell in row] for row in table.rows]
        sides = "".join("r" if column.is_number else "l" for column in table.columns)
        return self._floated(table.caption, heads, helps if any(helps) else (), rows, sides)

    def _floated(
        self, caption: str, heads: Sequence[str], helps: Sequence[str], rows: Sequence[Sequence[str]], sides: str
    ) -> str:
        lines = [" & ".join(map(escape, line)) + r" \\" for line in (heads, helps, *rows) if line]
        num_heads = 2 if helps else 1
        caption = caption or self.heading
        return "\n".join(
            [
                r"\begin{table}",
                rf"\caption{{{escape(caption)}}}",
                rf"\label{{{self._label(caption)}}}",
                rf"\begin{{tabular}}{{{sides}}}",
                r"\toprule",
                *lines[:num_heads],
                r"\midrule",
                *lines[num_heads:],
                r"\bottomrule",
                r"\end{tabular}",
                r"\end{table}",
            ]
        )

    def _label(self, caption: str) -> str:
        """Return a LaTeX label made of the first words of a caption; a label that is already used gets a number."""
        words = re.findall("[a-z0-9]+", caption.partition(";")[0].lower())[:_LABEL_WORDS]
        name = label = "tab:" + ("-".join(words) or "table")
        number = 1
        while label in self.labels:
            number += 1
            label = f"{name}-{number}"
        self.labels.add(label)
        return label


def _comment(text: str) -> str:
    return f"% {printable(text)}"
