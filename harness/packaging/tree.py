"""The files of a package as they are written, and what of the sources is not among them."""

import hashlib
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.foundation.errors import ExitCode, HarnessError
from harness.packaging.code import Files
from rules.logs.text import printable

SUMS_FILE = "SHA256SUMS"
_CHUNK = 1 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class LeftOut:
    """What was not packaged: where, how many files (0 where there are none to count), and why."""

    place: str
    num_files: int
    reason: str


class Tree:
    """The files of a package as they are written, each with its sha256."""

    def __init__(self, draft: Path, submission: str) -> None:
        self.draft, self.submission = draft, submission
        self.sums: dict[str, str] = {}
        self.sources: set[Path] = set()
        (draft / submission).mkdir(parents=True)

    def add(self, inner: str, content: str | Path) -> None:
        """Write a text or copy a file to <submission>/<inner>; the same bytes twice are fine, others are not."""
        target = self.draft / self.submission / inner
        target.parent.mkdir(parents=True, exist_ok=True)
        key = f"{self.submission}/{inner}"
        if key in self.sums:
            if _digest(content) != self.sums[key]:
                raise HarnessError(f"two sources hold different files for {printable(inner)}.", ExitCode.USAGE)
        elif isinstance(content, str):
            target.write_text(content, encoding="utf-8")
            self.sums[key] = _digest(content)
        else:
            self.sums[key] = _copy(content, target)
        if isinstance(content, Path):
            self.sources.add(content.resolve())
        if inner.endswith(".sh"):
            target.chmod(0o755)

    def add_all(self, folder: str, files: Files) -> None:
        for inner, content in files:
            self.add(f"{folder}/{inner}", content)

    def write_sums(self) -> None:
        """SHA256SUMS beside the submission, for sha256sum --check."""
        lines = [f"{digest}  {inner}\n" for inner, digest in sorted(self.sums.items())]
        (self.draft / SUMS_FILE).write_text("".join(lines), encoding="utf-8")


def _digest(content: str | Path) -> str:
    data = content.encode() if isinstance(content, str) else content.read_bytes()
    return hashlib.sha256(data).hexdigest()


def _copy(source: Path, target: Path) -> str:
    """Copy bytes as they are; their sha256, of what was read."""
    digest = hashlib.sha256()
    with source.open("rb") as reading, target.open("xb") as writing:
        while chunk := reading.read(_CHUNK):
            digest.update(chunk)
            writing.write(chunk)
    return digest.hexdigest()


def files_below(folder: Path) -> Iterator[tuple[str, Path]]:
    """Regular files below a folder, links left out, in order."""
    for here, subfolders, names in os.walk(folder):
        subfolders.sort()
        for name in sorted(names):
            path = Path(here, name)
            if is_plain_file(path):
                yield path.relative_to(folder).as_posix(), path


def is_plain_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def left_out(sources: Sequence[Path], tree: Tree) -> Iterator[LeftOut]:
    """What lies in the sources and not in the package, by place and reason."""
    counts: Counter[tuple[str, str]] = Counter()
    for root in dict.fromkeys(source.resolve() for source in sources):
        for here, subfolders, names in os.walk(root):
            subfolders.sort()
            for name in sorted(names):
                path = Path(here, name)
                if path.resolve() not in tree.sources or path.is_symlink():
                    counts[_place_and_reason(path, root)] += 1
    for (place, reason), number in counts.items():
        yield LeftOut(place=printable(place), num_files=number, reason=reason)


def _place_and_reason(path: Path, root: Path) -> tuple[str, str]:
    parts = path.relative_to(root).parts
    if path.is_symlink():
        return str(path.relative_to(root)), "a link, which is not followed"
    if "extra" in parts[:-1]:
        end = parts.index("extra") + 1
        if path.name == "log.txt":
            return str(Path(*parts[:-1])), "an attempt that did not become a result"
        return f"{Path(*parts[:end])}/", "the harness's own records"
    if path.name == "scaling.json":
        return str(Path(*parts)), "the review's factor, which the checkers find anew"
    if path.name == "report.html":
        return str(Path(*parts)), "no part of a submission"
    return str(Path(*parts)), "the layout has no place for it"
