"""CONTRIBUTING.md's recipes as data, and copies of the product in which they are followed."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from waiting import HANG_S

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
EXAMPLES = Path(__file__).with_name("recipes")
"""The whole files that the document shows parts of, by the places that they are written to."""
_COPIED = (
    "harness",
    "reference_models",
    "reports",
    "rules",
    "tests",
    "pyproject.toml",
    "README.md",
    "CONTRIBUTING.md",
)
_BLOCK = re.compile(r"^```(?P<kind>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"`((?:dlrmbench|python|pytest) [^`]+)`")


@dataclass(frozen=True)
class Recipe:
    """One section: new files with the part that is shown, changes by file, and commands, in the order of the text."""

    title: str
    prose: str
    shown: dict[str, str]
    changes: dict[str, str]
    commands: tuple[str, ...]
    blocks: tuple[tuple[str, str], ...]


def read_recipes() -> dict[str, Recipe]:
    """The sections that show something, by title."""
    sections = [part.partition("\n") for part in re.split(r"^## ", TEXT, flags=re.MULTILINE)[1:]]
    return {title: _read(title, body) for title, _, body in sections if _BLOCK.search(body)}


def _read(title: str, body: str) -> Recipe:
    blocks = tuple((match["kind"], match["text"]) for match in _BLOCK.finditer(body))
    prose = _BLOCK.sub("", body)
    changes = {
        path: change
        for kind, text in blocks
        if kind == "diff"
        for path, _, change in (part.partition("\n") for part in re.split(r"^--- ", text, flags=re.MULTILINE)[1:])
    }
    shown = {}
    for kind, text in blocks:
        if kind == "python":
            mark, path = text.partition("\n")[0].split()
            assert mark == "#", text
            shown[path] = text.partition("\n")[2]
    commands = tuple(" ".join(command.split()) for command in _COMMAND.findall(prose))
    return Recipe(title=title, prose=prose, shown=shown, changes=changes, commands=commands, blocks=blocks)


class Tree:
    """A copy of the product, or of one of its copies, with the recipes that were followed in it."""

    def __init__(self, folder: Path, original: Path = ROOT) -> None:
        self.folder = folder
        for name in _COPIED:
            source, target = original / name, folder / name
            if source.is_dir():
                shutil.copytree(source, target)
            else:
                shutil.copy2(source, target)
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith(("DLRMBENCH_", "PYTEST_"))
        }
        # Modules are compiled once and not by every process.
        inherited.pop("PYTHONDONTWRITEBYTECODE", None)
        self.environment = inherited | {"PYTHONPATH": str(folder)}

    def follow(self, recipe: Recipe) -> None:
        """Write the recipe's files and make its changes."""
        for path in recipe.shown:
            target = self.folder / path
            assert not target.exists(), f"{path} is no new file"
            if not target.parent.exists():
                target.parent.mkdir()
                target.parent.joinpath("__init__.py").write_text(f'"""{recipe.title}."""\n', encoding="utf-8")
            shutil.copy(EXAMPLES / path, target)
        self.change(recipe)

    def change(self, recipe: Recipe) -> None:
        """Make the recipe's changes alone."""
        for path, change in recipe.changes.items():
            target = self.folder / path
            target.write_text(apply_change(target.read_text(encoding="utf-8"), change), encoding="utf-8")

    def touched(self) -> set[str]:
        """Files that are not, or not as they are here, in the product."""
        return {
            name
            for name in self._names()
            if not (ROOT / name).is_file() or (ROOT / name).read_bytes() != (self.folder / name).read_bytes()
        }

    def _names(self) -> Iterator[str]:
        for top in _COPIED:
            path = self.folder / top
            for file in (path,) if path.is_file() else path.rglob("*"):
                if file.is_file() and "__pycache__" not in file.parts:
                    yield str(file.relative_to(self.folder))

    def run(self, command: str, *more: object) -> "subprocess.CompletedProcess[str]":
        """One of the document's commands, at the top of this tree, with `more` arguments. Redirects to a file."""
        text, _, target = command.partition(" > ")
        words = shlex.split(text)
        prefix = {
            "dlrmbench": [sys.executable, "-m", "harness"],
            "python": [sys.executable],
            "pytest": [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"],
        }[words[0]]
        done = subprocess.run(
            [*prefix, *words[1:], *map(str, more)],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=HANG_S,
            check=False,
        )
        if target:
            (self.folder / target).write_text(done.stdout, encoding="utf-8")
        return done


def apply_change(content: str, change: str) -> str:
    """`content` after a unified diff without line numbers: what a hunk replaces is there exactly once."""
    lines = content.splitlines()
    for hunk in re.split(r"^@@\n", change, flags=re.MULTILINE):
        old, new = ([line[1:] for line in hunk.splitlines() if line[0] != other] for other in "+-")
        places = [start for start in range(len(lines)) if lines[start : start + len(old)] == old]
        assert len(places) == 1, f"{len(places)} times there, expected once: {old}"
        lines[places[0] : places[0] + len(old)] = new
    return "\n".join(lines) + "\n"


def added_lines(change: str) -> list[str]:
    """What a diff adds."""
    return [line[1:] for line in change.splitlines() if line.startswith("+")]
