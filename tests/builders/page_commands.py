"""Command lines that pages show, as they are written: one test parses each, another runs those that can be run."""

import re
from collections.abc import Iterator

from places import ROOT

from harness.cli.schema import PAGES as PRINTED

_PRINTED = {page for _, page, _ in PRINTED.values()}
_FOLDERS = ("harness", "reference_models", "reports", "rules", "tests/gpu")
PAGES = (
    "README.md",
    *sorted(
        page
        for folder in _FOLDERS
        for path in (ROOT / folder).rglob("README.md")
        if (page := str(path.relative_to(ROOT))) not in _PRINTED
    ),
)
"""The pages that are written by hand; the others are made of the code. Recipes follow what CONTRIBUTING shows."""
_FENCE = re.compile(r"^```(?P<kind>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"(?:^ {4}.*\n)+", re.MULTILINE)
_SPAN = re.compile(r"`(dlrmbench [^`]+)`")
_PLACEHOLDER = re.compile(r"(?<![\w./=-])[A-Z]{2,}(?:\.\w+)?(?![\w(])|/path/to/|…|<")
_PROGRAM = re.compile(r"(?:^|\s)(?:dlrmbench|-m harness) ")


def read_text(page: str) -> str:
    """Read a page."""
    return (ROOT / page).read_text(encoding="utf-8")


def read_groups(page: str) -> Iterator[tuple[str, ...]]:
    """Yield the lines of each block of commands, then the commands of each paragraph, entry or row of a table."""
    text = read_text(page)
    for block in _FENCE.finditer(text):
        if block["kind"] in ("console", "") and (lines := _read_lines(block["text"])):
            yield lines
    prose = _FENCE.sub("", text)
    for indented in _INDENTED.findall(prose):
        if lines := _read_lines(re.sub(r"(?m)^ {4}", "", indented)):
            yield lines
    for part in re.split(r"\n\n|\n(?=[|-])", _INDENTED.sub("", prose)):
        if spans := tuple(" ".join(span.split()) for span in _SPAN.findall(part)):
            yield spans


def _read_lines(text: str) -> tuple[str, ...]:
    lines = (line.split("  #")[0].strip() for line in text.replace("\\\n", " ").splitlines())
    return tuple(" ".join(line.split()) if "'" not in line else line for line in lines if line)


def find_words(command: str) -> str | None:
    """Return what a line gives the command line of dlrmbench, without what its output is sent to; None of another
    program's line."""
    begin = _PROGRAM.search(command)
    return None if begin is None else re.split(r" >>? | \| ", command[begin.end() :])[0]


def has_placeholder(command: str) -> bool:
    """Return whether a reader has to put something of their own into a command before it can be run."""
    return _PLACEHOLDER.search(re.sub(r"'[^']*'", "", command)) is not None
