"""Write the files of a package, and list the files of its sources that are left out."""

import hashlib
import os
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.extensions.packaging.code import Files
from harness.foundation.errors import HarnessError
from rules.logs.text import printable
from rules.records.kept.weights import WEIGHTS_FOLDER
from rules.tree.result_set import real_path

SUMS_FILE = "SHA256SUMS"
_BACKSLASH = "\\"
_ESCAPED = str.maketrans({_BACKSLASH: r"\\", "\n": r"\n", "\r": r"\r"})


@dataclass(frozen=True, kw_only=True, slots=True)
class LeftOut:
    """Files that were not packaged: where they are (a folder, a path or a description), how many they are (0 where
    they cannot be counted), and the reason."""

    place: str
    num_files: int
    reason: str


class Tree:
    """Submission tree of a package that is being written, with the sha256 of each file."""

    def __init__(self, draft: Path, submission: str) -> None:
        self.draft, self.submission = draft, submission
        self.sums: dict[str, str] = {}
        self.sources: set[Path] = set()
        (draft / submission).mkdir(parents=True)

    def add(self, inner: str, content: str | Path) -> str:
        """Write a text or copy a file to <submission>/<inner>, and return its sha256. Raises HarnessError if the path
        exists with other content."""
        target = self.draft / self.submission / inner
        target.parent.mkdir(parents=True, exist_ok=True)
        key = f"{self.submission}/{inner}"
        if key in self.sums:
            if _digest(content) != self.sums[key]:
                raise HarnessError(f"two sources hold different files for {printable(inner)}.")
        elif isinstance(content, str):
            target.write_text(content, encoding="utf-8")
            self.sums[key] = _digest(content)
        else:
            shutil.copyfile(content, target)
            self.sums[key] = _digest(target)
        if isinstance(content, Path):
            self.sources.add(real_path(content))
        if inner.endswith(".sh"):
            target.chmod(0o755)
        return self.sums[key]

    def add_all(self, folder: str, files: Files) -> None:
        for inner, content in files:
            self.add(f"{folder}/{inner}", content)

    def write_sums(self) -> None:
        """Write SHA256SUMS next to the submission, for sha256sum --check: a line for each file, also for names that
        are no valid text."""
        lines = [_sums_line(digest, inner) for inner, digest in sorted(self.sums.items())]
        (self.draft / SUMS_FILE).write_text("".join(lines), encoding="utf-8", errors="surrogateescape")


def _sums_line(digest: str, name: str) -> str:
    """Return a line of SHA256SUMS as sha256sum writes it: line breaks and backslashes in a name are escaped, and the
    line then begins with a backslash."""
    escaped = name.translate(_ESCAPED)
    return f"{'' if escaped == name else _BACKSLASH}{digest}  {escaped}\n"


def _digest(content: str | Path) -> str:
    if isinstance(content, str):
        return hashlib.sha256(content.encode()).hexdigest()
    with content.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def files_below(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the regular files below a folder in order, each with its path relative to the folder; links are left
    out."""
    for path in _walk(folder):
        if is_plain_file(path):
            yield path.relative_to(folder).as_posix(), path


def _walk(folder: Path) -> Iterator[Path]:
    for here, subfolders, names in os.walk(folder):
        subfolders.sort()
        yield from (Path(here, name) for name in sorted(names))


def is_plain_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def left_out(sources: Sequence[Path], tree: Tree) -> Iterator[LeftOut]:
    """Yield the files in the packaged folders, `sources`, that the package leaves out, grouped by path or folder and
    by reason."""
    counts = Counter(
        _place_and_reason(path, root)
        for root in dict.fromkeys(real_path(source) for source in sources)
        for path in _walk(root)
        if real_path(path) not in tree.sources or path.is_symlink()
    )
    for (place, reason), number in counts.items():
        yield LeftOut(place=printable(place), num_files=number, reason=reason)


def _place_and_reason(path: Path, root: Path) -> tuple[str, str]:
    inner = path.relative_to(root)
    parts = inner.parts
    if path.is_symlink():
        return str(inner), "a link, which is not followed"
    if "extra" in parts[:-1]:
        end = parts.index("extra") + 1
        if path.name == "log.txt":
            return str(inner.parent), "an attempt that did not become a result"
        if path.parent.name == WEIGHTS_FOLDER:
            return f"{inner.parent}/", "weights, which --weights packages"
        return f"{Path(*parts[:end])}/", "the harness's own records"
    if path.name == "scaling.json":
        return str(inner), "the review's factor, which the checkers find anew"
    if path.name == "report.html":
        return str(inner), "no part of a submission"
    return str(inner), "the layout has no place for it"
