"""Read one result set: a directory that holds result_*.txt. It may have this harness's layout, MLPerf's, or
neither."""

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

RESULT_FILE = re.compile(r"result_.*\.txt\Z")
_ROUND = re.compile(r"(?:\A|[_-])v(\d{1,2}\.\d)(?:[_-]|\Z)")
_NUMBERS = re.compile(r"(\d+)")
POWER_FOLDER = "power"
PARAMETERS = "package_checker_params"
"""Name of a file with options for the official package checker (such as rcp-bypass) that concern its test against
reference convergence points."""
MAX_STRAY_NAMES = 20
NOT_RESULTS = ("extra", "systems", "benchmarks", "documentation", "__pycache__")


RoundSource = Literal["directory", "file"]
"""Source of a result set's MLPerf round: "directory" for a directory's name, or "file" for the name of the log
itself."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ResultSet:
    """Result set: the logs of one benchmark on one system, and what the names of its directories state.

    `root` is the run-set directory of this harness (it holds `extra/`), or benchmarks/<benchmark>/<system> of a
    package that this harness made; None for any other tree. `organization`, `system`, `benchmark` and `round` come
    from directory names; each is None if no name states it. The logs themselves may state something else.
    """

    folder: Path
    logs: tuple[Path, ...]
    system_json: Path | None
    root: Path | None
    organization: str | None
    system: str | None
    benchmark: str | None
    round: str | None
    round_source: RoundSource | None = None
    unread: tuple[tuple[Path, str], ...] = ()
    """Files that have a log's name and are not read, each with the reason: broken links, links that lead out of the
    tree, and entries that are not regular files."""
    strays: tuple[str, ...] = ()
    """Names in the folder of the set's logs that are neither a log nor power/; sorted, at most MAX_STRAY_NAMES of
    them."""

    @property
    def is_run_set(self) -> bool:
        """Return whether the result set is in this harness's own layout, so that it can be resumed; a package for
        submission is a copy in MLPerf's layout and cannot be resumed."""
        return self.root is not None and self.organization is None

    @property
    def parameter_files(self) -> tuple[Path, ...]:
        """Return the possible paths of package_checker_params, a file that makes the official package checker leave
        out checks. In a submission tree, these are in the root, the system's and the benchmark's directory
        (training_rules.adoc, "RCP Rules and Guidelines"). Elsewhere, it is one path in the directory of the logs."""
        top = _top(self.folder)
        places = (self.folder,) if top is None else (top, top / "results" / self.folder.parent.name, self.folder)
        return tuple(place / PARAMETERS for place in places)

    @property
    def definition_file(self) -> Path | None:
        """Return the path of the copy of the benchmark's definition beside the results; None where there is none."""
        return _file(self.root / "extra" / "definition.toml") if self.root is not None else None


def set_of_one(log: Path) -> ResultSet:
    """Return the result set of a single log that was given as a file."""
    return _result_set(log.parent, (log,))


def read_result_folder(folder: Path, start: Path, entries: Iterable[os.DirEntry[str]] | None = None) -> ResultSet:
    """Read the result set in one directory. Raises OSError where the directory cannot be read.

    `entries` is the directory's listing, if the caller has one. `start` is the folder where the search for results
    began: links may not lead out of it or, in a submission, out of the submission's folder.
    """
    if entries is None:
        with os.scandir(folder) as listing:
            entries = list(listing)
    logs, unread, strays = [], [], []
    top = _top(folder) or start
    for entry in sorted(entries, key=lambda entry: natural_order(entry.name)):
        if not RESULT_FILE.match(entry.name):
            if entry.name != POWER_FOLDER:
                strays.append(entry.name)
        elif (reason := _why_not_read(entry, top)) is None:
            logs.append(folder / entry.name)
        else:
            unread.append((folder / entry.name, reason))
    return _result_set(folder, tuple(logs), tuple(unread), tuple(strays[:MAX_STRAY_NAMES]))


def real_path(path: Path) -> Path:
    """Return a path with all links followed. A link that leads to itself is left as it is (Path.resolve would raise
    RuntimeError)."""
    return Path(os.path.realpath(path))


def leads_out(path: Path, top: Path) -> bool:
    """Return whether `path`, all links followed, is outside the folder `top`."""
    if path.is_relative_to(top) and _is_plain(path, top):
        return False
    return not real_path(path).is_relative_to(real_path(top))


def _is_plain(path: Path, top: Path) -> bool:
    """Return whether no part of `path` below `top` is a link or ".."."""
    place = str(top)
    for part in path.parts[len(top.parts) :]:
        place = f"{place}{os.sep}{part}"
        if part == os.pardir or os.path.islink(place):  # noqa: PTH114  (a Path for each would take longer)
            return False
    return True


def _why_not_read(entry: os.DirEntry[str], top: Path) -> str | None:
    if entry.is_symlink():
        try:
            is_file = entry.is_file()
        except OSError as error:
            return f"a link that cannot be followed: {error.strerror}"
        if not is_file:
            return "a broken link" if not Path(entry.path).exists() else "a link to something that is no file"
        return "a link that leads out of the tree" if leads_out(Path(entry.path), top) else None
    return None if entry.is_file(follow_symlinks=False) else "not a regular file"


def natural_order(name: str) -> tuple[tuple[int, int, str], ...]:
    """Return the sort key of a name or path that puts result_2 before result_10."""
    return tuple((0, int(part), "") if part.isdecimal() else (1, 0, part) for part in _NUMBERS.split(name))


def _parts(folder: Path) -> tuple[str, ...]:
    return Path(os.path.abspath(folder)).parts  # noqa: PTH100  (resolve() would follow links out of the tree)


def _top(folder: Path) -> Path | None:
    """Return the directory that contains results/<system>/<benchmark>, where `folder` is the <benchmark> directory;
    None if `folder` has no such path."""
    parts = _parts(folder)
    if len(parts) < 4 or parts[-3] != "results":
        return None
    return Path(os.path.normpath(folder.parents[2] if len(folder.parents) > 2 else Path(*parts[:-3])))


def _result_set(
    folder: Path, logs: tuple[Path, ...], unread: tuple[tuple[Path, str], ...] = (), strays: tuple[str, ...] = ()
) -> ResultSet:
    parts, top = _parts(folder), _top(folder)
    of_file = round_of((logs[0].stem,)) if len(logs) == 1 else None
    of_folder = round_of(parts)
    is_ours = top is not None and (top / "extra").is_dir()
    packaged = _packaged_root(top, parts[-1], parts[-2]) if top is not None and not is_ours else None
    return ResultSet(
        folder=folder,
        logs=logs,
        system_json=_file(top / "systems" / f"{parts[-2]}.json", top) if top is not None else None,
        root=top if is_ours else packaged or _root_of_attempt(folder),
        organization=parts[-4] if top is not None and not is_ours else None,
        system=parts[-2] if top is not None else None,
        benchmark=parts[-1] if top is not None else None,
        round=of_file or of_folder,
        round_source="file" if of_file else "directory" if of_folder else None,
        unread=unread,
        strays=strays,
    )


def round_of(names: Sequence[str]) -> str | None:
    """Return the MLPerf round that is stated by names of directories or of a log, such as 5.1 for
    training_results_v5.1. If several names state a round, the innermost counts. None if no name does."""
    return next((match[1] for name in reversed(names) if (match := _ROUND.search(name))), None)


def _root_of_attempt(folder: Path) -> Path | None:
    """Return the run set in whose extra/ a log is, because the log did not become a run's result, or not yet. None
    for any other log, and for run sets of other harnesses."""
    extra = next((parent for parent in folder.absolute().parents if parent.name == "extra"), None)
    return extra.parent if extra is not None and (extra / "definition.toml").is_file() else None


def _packaged_root(top: Path, benchmark: str, system: str) -> Path | None:
    """Return the folder that holds a run set's records and its copy of the benchmark definition, if the set is a
    package: a set in MLPerf's layout that this harness made for submission. Return None for any other set."""
    root = top / "benchmarks" / benchmark / system
    return root if _file(root / "extra" / "run_set.json", top) is not None else None


def _file(path: Path, top: Path | None = None) -> Path | None:
    """Return `path` if it is a file and, once links are followed, inside of `top`; else None."""
    return path if path.is_file() and (top is None or not leads_out(path, top)) else None
