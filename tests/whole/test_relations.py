"""What configurations are to each other is asked of relations: no other file knows one by its name."""

import ast
import re
from functools import cache
from pathlib import Path

from places import ROOT

from harness.experiment.relation import RELATIONS
from rules.extensions import find_places

NAMES = {"one", "sides", "matrix", "suite", "search", *RELATIONS, *find_places("relations")}
FILES = [path for package in ("harness", "reports", "rules") for path in sorted((ROOT / package).rglob("*.py"))]
MOST_PLACES = 10


@cache
def trees() -> dict[Path, ast.AST]:
    """The files that may ask for a relation: those that spell the name of one, or what it is to a reader."""
    texts = {path: path.read_text(encoding="utf-8") for path in FILES}
    words = re.compile("|".join(["reads_as", *(f"[\"']{name}[\"']" for name in NAMES)]))
    return {path: ast.parse(text) for path, text in texts.items() if words.search(text)}


def is_of_relations(path: Path) -> bool:
    place = path.relative_to(ROOT).as_posix()
    own = ("harness/experiment/relation.py", "harness/experiment/relations/", "harness/extensions/")
    return place.startswith(own)


def strings(node: ast.AST | None) -> set[str]:
    found = ast.walk(node) if node is not None else ()
    return {part.value for part in found if isinstance(part, ast.Constant) and isinstance(part.value, str)}


def asked_by_name(tree: ast.AST) -> set[str]:
    """Strings that are compared, matched, or keys of a mapping or a look-up."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            found |= strings(node)
        elif isinstance(node, ast.match_case):
            found |= strings(node.pattern)
        elif isinstance(node, ast.Dict):
            found |= {name for key in node.keys for name in strings(key)}
        elif isinstance(node, ast.Subscript):
            found |= strings(node.slice)
    return found


def test_no_other_file_asks_for_a_relation_by_its_name() -> None:
    found = {
        path.relative_to(ROOT).as_posix(): names
        for path, tree in trees().items()
        if not is_of_relations(path) and (names := asked_by_name(tree) & NAMES)
    }
    assert found == {}


def test_a_name_that_is_asked_for_is_found() -> None:
    for text in ('x == "sides"', 'x in ("a", "matrix")', '{"search": 1}', 'y["suite"]', 'match x:\n case "one": 1'):
        assert asked_by_name(ast.parse(text)) & NAMES, text
    assert not asked_by_name(ast.parse('f(relation="one")'))


def test_few_places_ask_what_an_experiment_is_to_a_reader() -> None:
    asking = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Compare | ast.Subscript)
        and any(isinstance(part, ast.Attribute) and part.attr == "reads_as" for part in ast.walk(node))
    ]
    assert 0 < len(asking) <= MOST_PLACES, asking
