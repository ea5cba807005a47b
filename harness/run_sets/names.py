"""Sets of a results folder by name, as scripts give them: the folder's, the label that --name gave, or `latest`."""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from rules.records.codec import Damage, decode
from rules.records.run_set import RunSetRecord

LATEST = "latest"
_DEFAULT = "results"
_MOMENT = re.compile(r"-\d{8}T\d{6}Z(?:-\d+)?\Z")


def results_folder() -> Path:
    """Where runs are made unless -o says otherwise."""
    return Path(os.environ.get("DLRMBENCH_OUTPUT") or _DEFAULT)


def link_latest(folder: Path) -> None:
    """Let `latest` beside a new set or sweep lead to it, unless a file has that name or links are impossible."""
    link, draft = folder.parent / LATEST, folder.parent / f".{LATEST}-{os.getpid()}"
    if link.exists() and not link.is_symlink():
        return
    with suppress(OSError):
        draft.symlink_to(folder.name)
        draft.replace(link)


def find_named(name: str, results: Path) -> list[Path]:
    """The sets and sweeps in `results` of that name, in order; a folder's own name is one, a label may be several."""
    folder = results / name
    with suppress(PermissionError):  # a path inside a folder that may not be read is no name
        if name and ".." not in Path(name).parts and folder.exists():
            return [results / folder.readlink() if folder.is_symlink() else folder]
    return [path for path in sets_of(results) if name == label_of(path)]


def sets_of(results: Path) -> Iterator[Path]:
    """The run sets and sweeps in a folder, by name."""
    with suppress(OSError):
        for path in sorted(results.iterdir()):
            is_made = (path / "extra" / "run_set.json").is_file() or (path / "sweep.json").is_file()
            if is_made and not path.is_symlink():
                yield path


def label_of(folder: Path) -> str | None:
    """What --name gave: a set's name without its benchmark and moment; of a sweep, without what its maker added."""
    if (match := _MOMENT.search(folder.name)) is None:
        return None
    record = decode(folder / "extra" / "run_set.json", RunSetRecord)
    benchmark = "sweep" if isinstance(record, Damage) else record.benchmark.name
    return folder.name[: match.start()].removeprefix(f"{benchmark}-")
