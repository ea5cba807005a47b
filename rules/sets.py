"""Finding result sets: directories that hold result_*.txt, in our tree, MLPerf's, or bare."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from rules.errors import InputError

RESULT_FILE = re.compile(r"result_.*\.txt\Z")
_ROUND = re.compile(r"(?:\A|[_-])v(\d{1,2}\.\d)(?:[_-]|\Z)")
_NUMBERS = re.compile(r"(\d+)")
_NOT_RESULTS = ("extra", "systems", "benchmarks", "documentation", "__pycache__")


@dataclass(frozen=True, kw_only=True, slots=True)
class ResultSet:
    """The logs of one benchmark on one system.

    `root` is the run-set directory of this harness (it holds `extra/`), None for anyone else's tree.
    `organization`, `system`, `benchmark` and `round` are what the tree's directory names say, None where
    they say nothing; the logs themselves may say something else.
    """

    folder: Path
    logs: tuple[Path, ...]
    system_json: Path | None
    root: Path | None
    organization: str | None
    system: str | None
    benchmark: str | None
    round: str | None

    @property
    def definition_file(self) -> Path | None:
        """The copy of the benchmark's definition beside the results, if there is one."""
        return _file(self.root / "extra" / "definition.toml") if self.root is not None else None


def find_result_sets(path: str | Path) -> tuple[ResultSet, ...]:
    """All result sets at or below `path`, sorted by folder; a log file is a set of one.

    Raises InputError when there is nothing to judge.
    """
    path = Path(path)
    if path.is_file():
        return (_result_set(path.parent, (path,)),)
    if not path.is_dir():
        raise InputError(f"{path}: no such file or directory. Give a log or a directory that holds result_*.txt.")
    found = []
    for folder, subfolders, files in os.walk(path):
        subfolders[:] = sorted(name for name in subfolders if name not in _NOT_RESULTS and not name.startswith("."))
        logs = [name for name in files if RESULT_FILE.match(name)]
        if logs:
            here = Path(folder)
            found.append(_result_set(here, tuple(here / name for name in sorted(logs, key=_natural))))
    if not found:
        raise InputError(
            f"{path}: no result_*.txt here or below. Expected <org>/results/<system>/<benchmark>/result_<i>.txt, "
            "or a directory of result_*.txt; a single log of another name can be given as a file."
        )
    return tuple(sorted(found, key=lambda one: _natural(str(one.folder))))


def _natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """Sort key that puts result_2 before result_10."""
    return tuple((0, int(part), "") if part.isdecimal() else (1, 0, part) for part in _NUMBERS.split(name))


def _result_set(folder: Path, logs: tuple[Path, ...]) -> ResultSet:
    parts = Path(os.path.abspath(folder)).parts  # noqa: PTH100  (resolve() would follow links out of the tree)
    has_tree = len(parts) >= 4 and parts[-3] == "results"
    names = (*parts, logs[0].stem) if len(logs) == 1 else parts
    top = Path(os.path.normpath(folder.parents[2] if len(folder.parents) > 2 else Path(*parts[:-3])))
    system = parts[-2] if has_tree else None
    is_ours = has_tree and (top / "extra").is_dir()
    root = top if is_ours else _root_of_attempt(folder)
    return ResultSet(
        folder=folder,
        logs=logs,
        system_json=_file(top / "systems" / f"{system}.json") if system is not None else None,
        root=root,
        organization=parts[-4] if has_tree and not is_ours else None,
        system=system,
        benchmark=parts[-1] if has_tree else None,
        round=next((match[1] for name in reversed(names) if (match := _ROUND.search(name))), None),
    )


def _root_of_attempt(folder: Path) -> Path | None:
    """The run set of a log below its `extra/`, that is of an attempt that is not (yet) a result."""
    extra = next((parent for parent in folder.absolute().parents if parent.name == "extra"), None)
    return extra.parent if extra is not None and (extra / "definition.toml").is_file() else None


def _file(path: Path) -> Path | None:
    return path if path.is_file() else None
