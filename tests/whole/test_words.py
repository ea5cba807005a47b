"""Names and docstrings are understood by themselves: no riddles, no participles that stand for a thing."""

import ast
import re
from collections.abc import Iterator

import pytest
from places import ROOT

PACKAGES = ("harness", "harness/extensions", "reference_models", "rules", "reports")
NOUNS = {"Seed", "Speed", "Feed", "Need"}
"""Words that end as a participle does, and are none."""
IRREGULAR = {
    "Asked", "Begun", "Built", "Chosen", "Done", "Drawn", "Found", "Given", "Gone", "Grown", "Held", "Kept", "Known",
    "Left", "Lost", "Made", "Meant", "Put", "Read", "Said", "Seen", "Sent", "Shown", "Sold", "Taken", "Told",
    "Understood", "Unknown", "Untold", "Written",
}  # fmt: skip
ACTING = {"Asking", "Growing", "Making", "Saying", "Showing", "Telling", "Waiting", "Working"}


def is_participle(name: str) -> bool:
    """Return whether a class's name ends in what was done or is being done, instead of what the class is."""
    word = re.findall(r"[A-Z][a-z0-9]*|[A-Z]+(?![a-z])", name)[-1:] or [name]
    return (word[0].endswith("ed") and word[0] not in NOUNS) or word[0] in IRREGULAR | ACTING


def docstrings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield every string that stands alone, with its line: docstrings of definitions and of attributes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value


def riddles(source: str) -> list[str]:
    """List what cannot be understood by itself: docstrings "Of …" and classes that are participles."""
    tree = ast.parse(source)
    found = [f"{line}: {text[:40]!r}" for line, text in docstrings(tree) if text.lstrip().startswith("Of ")]
    return found + [
        f"{node.lineno}: class {node.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and is_participle(node.name)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("package", PACKAGES)
def test_docstrings_say_what_and_classes_are_nouns(package: str) -> None:
    others = [ROOT / other for other in PACKAGES if other.startswith(f"{package}/")]
    files = sorted(path for path in (ROOT / package).rglob("*.py") if not any(map(path.is_relative_to, others)))
    found = [(str(path.relative_to(ROOT)), riddles(path.read_text(encoding="utf-8"))) for path in files]
    assert files and [entry for entry in found if entry[1]] == []


@pytest.mark.parametrize(
    ("source", "number"),
    [
        ('x = 1\n"""Of the light."""\n', 1),
        ('def f():\n    """Of the light, in mm."""\n', 1),
        ("class Untold: ...\n", 1),
        ("class Gathered: ...\n", 1),
        ("class _Saying: ...\n", 1),
        ("class NotJudged: ...\n", 1),
        ('x = 1\n"""Wavelength of the light, in mm."""\nclass Seed: ...\nclass MergedEmbedding: ...\n', 0),
    ],
)
def test_riddles_are_found(source: str, number: int) -> None:
    assert len(riddles(source)) == number
