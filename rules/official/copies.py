"""Copy files for the official checkers: regular files only, no links, and no more than a number of files and of
bytes."""

import itertools
import os
import stat
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

MAX_LOG_BYTES = 64 << 20
MAX_LINE_BYTES = 64 << 10
"""Maximum bytes of a line with a record in a log that is given to the official checkers: the official parser takes
seconds for longer lines, and minutes for a megabyte."""
MAX_TOTAL_BYTES = 1 << 30
MAX_FILES = 50_000
"""Maximum number of files of one submission that are copied for the official checkers."""
MAX_TOTAL_FILES = 500_000
_LARGE_FOR_REPO = (50 << 20) + 1
_CHUNK = 1 << 20
_TOKEN = b":::MLLOG"


class NotCopiedError(Exception):
    """Error with the reason why a file is not copied for the official checkers."""


class Copies:
    """Copier of logs, sets and submissions for the official checkers into one folder, each log and set once; its
    methods return names relative to that folder. Raises NotCopiedError."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._made: dict[Path | tuple[Path, ...], str] = {}
        self._numbers = itertools.count()  # an incomplete copy keeps its name
        self._num_files = 0
        self._num_files_in_all = 0
        self._num_bytes = 0

    def log(self, path: Path) -> str:
        """Copy a log or a system description under a generated name; return that name."""
        if path not in self._made:
            self._num_files = 0
            name = f"{next(self._numbers)}{'.json' if path.suffix == '.json' else '.txt'}"
            self._copy(path, self.folder / name)
            self._made[path] = name
        return self._made[path]

    def result_set(self, logs: Sequence[Path]) -> str:
        """Copy one set's logs under their own names to a new folder, without scaling.json and other files; return the
        new folder's name."""
        key = tuple(logs)
        if key not in self._made:
            name = self._new_folder("set")
            for log in logs:
                target = self.folder / name / log.name
                if target.exists():
                    raise NotCopiedError(f"two logs are called {log.name}")
                self._copy(log, target)
                self._made[log] = f"{name}/{log.name}"
            self._made[key] = name
        return self._made[key]

    def submission(self, root: Path, without: Collection[Path] = ()) -> str:
        """Copy the folders systems/ and results/ of a submission to a new folder, without files named scaling.json
        and without the paths in `without`; return the new folder's name."""
        name, left_out = self._new_folder("submission"), set(without)
        for part in ("systems", "results"):
            (self.folder / name / part).mkdir()
            for path, inner in _files(root / part):
                if path.name != "scaling.json" and not left_out.intersection((path, *path.parents)):
                    target = self.folder / name / part / inner
                    target.parent.mkdir(parents=True, exist_ok=True)
                    self._copy(path, target)
        return name

    def outline(self, root: Path) -> str:
        """Recreate all regular files of a submission as empty ones, for the repository checker; files of more than 50
        MiB, too large to publish, become sparse files of 50 MiB and a byte. Return the folder's name."""
        name = self._new_folder("outline")
        for path, inner in _files(root):
            self._count(0)
            target = self.folder / name / inner
            target.parent.mkdir(parents=True, exist_ok=True)
            target.touch()
            if path.stat().st_size >= _LARGE_FOR_REPO:
                os.truncate(target, _LARGE_FOR_REPO)
        return name

    def _new_folder(self, kind: str) -> str:
        self._num_files = 0
        name = f"{kind}{next(self._numbers)}"
        (self.folder / name).mkdir()
        return name

    def _count(self, num_bytes: int) -> None:
        self._num_files += 1
        self._num_files_in_all += 1
        self._num_bytes += num_bytes
        for found, most, words in (
            (self._num_files, MAX_FILES, "files"),
            (self._num_files_in_all, MAX_TOTAL_FILES, "files in all"),
            (self._num_bytes, MAX_TOTAL_BYTES, "bytes in all"),
        ):
            if found > most:
                raise NotCopiedError(f"more than {most} {words}")

    def _copy(self, source: Path, target: Path) -> None:
        try:
            # A named pipe must not block; sizes are checked once the file is open.
            descriptor = os.open(source, os.O_RDONLY | os.O_NONBLOCK)
        except OSError as error:
            raise NotCopiedError(f"{source.name} cannot be read: {error.strerror}") from None
        with os.fdopen(descriptor, "rb") as reading:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise NotCopiedError(f"{source.name} is no regular file")
            if status.st_size > MAX_LOG_BYTES:
                raise NotCopiedError(f"{source.name} is larger than {MAX_LOG_BYTES} bytes")
            self._count(status.st_size)
            left = status.st_size
            with target.open("xb") as writing:
                while left and (chunk := reading.read(min(left, _CHUNK))):
                    writing.write(chunk)
                    left -= len(chunk)
        if target.suffix == ".txt" and (num_bytes := _longest_record_line(target)) > MAX_LINE_BYTES:
            target.unlink()
            raise NotCopiedError(
                f"{source.name} has a record in a line of {num_bytes} bytes; more than {MAX_LINE_BYTES} take minutes"
            )


def _longest_record_line(path: Path) -> int:
    """Return the length in bytes of a log's longest line that holds a record; 0 where no line is longer than
    MAX_LINE_BYTES."""
    longest = 0
    with path.open("rb") as file:
        for line in file:
            if len(line) > MAX_LINE_BYTES:
                longest = max(longest, *(len(part) for part in line.split(b"\r") if _TOKEN in part), 0)
    return longest


def num_links(root: Path) -> int:
    """Return the number of links and special files below `root`, which are not copied for the official checkers."""
    found = 0
    for folder, subfolders, files in os.walk(root):
        found += sum(not _is_plain(os.path.join(folder, name)) for name in (*subfolders, *files))  # noqa: PTH118
    return found


def _files(root: Path) -> Iterator[tuple[Path, Path]]:
    """Yield the regular files below the folder `root` with their paths relative to it; links are neither followed nor
    yielded."""
    for folder, subfolders, files in os.walk(root):
        subfolders.sort()
        for name in sorted(files):
            path = Path(folder, name)
            if _is_plain(path):
                yield path, path.relative_to(root)


def _is_plain(path: str | Path) -> bool:
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return False
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode)
