"""Store the progress of a preparation beside its spool (parsed rows on disk), so that a killed preparation can be
continued.

Progress is written at two points, each after the spool is synced to disk: when files are parsed, and when category
columns are replaced by ids. A preparation uses the stored progress only if its definition and its files (path, size,
time of change) are the same.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from reference_models.config.sections import DataConfig
from reference_models.data.prepared.look import ColumnLook
from reference_models.data.prepared.spool import PROGRESS, SpoolColumn, category_name
from reference_models.process.atomic_write import write_atomically
from reference_models.process.errors import DatasetError
from reference_models.process.open_file import read_regular

_VERSION = 2
"""Version of the progress file's format, raised whenever that format, or the format of the parsed rows, changes."""
_MAX_BYTES = 1 << 28


@dataclass(kw_only=True, slots=True)
class SpoolProgress:
    """Progress of a preparation of files. `asked` is the digest of the files and of the definition; a later
    preparation with the same digest may continue from this progress."""

    asked: str
    num_rows: int = 0
    """Number of parsed rows, which each column on disk has."""
    columns: dict[str, tuple[str, str, int]] = field(default_factory=dict)
    """Dict from the name of each column of parsed rows to its file's name, NumPy type and values per row."""
    is_parsed: bool = False
    """Whether all of the user's files are parsed, and rows are in their final order."""
    tally: dict[str, Any] = field(default_factory=dict)
    """Counts of the lines and rows in the files parsed so far."""
    reader: dict[str, Any] = field(default_factory=dict)
    """Position of the reader in its files after the files parsed so far, to continue from there."""
    numbered: list[tuple[int, ColumnLook]] = field(default_factory=list)
    """Number of embedding rows, and counts of cells, of each category column whose values are replaced by ids so
    far."""

    def is_of(self, columns: Mapping[str, SpoolColumn], num_tables: int) -> bool:
        """Return whether the progress fits a preparation whose parsed rows have the columns `columns`, `num_tables`
        of them categories."""
        done = [category_name(number) for number in range(len(self.numbered))]
        forms = {name: (SpoolColumn("int32", each.width) if name in done else each) for name, each in columns.items()}
        return (
            self.num_rows >= 0
            and len(self.numbered) <= num_tables
            and self.is_parsed >= bool(self.numbered)
            and {name: SpoolColumn(dtype, width) for name, (_, dtype, width) in self.columns.items()} == forms
            and all(file in (name, f"{name}.new") for name, (file, *_) in self.columns.items())
        )


def digest_of(
    train_files: Sequence[Path], eval_files: Sequence[Path], data: DataConfig, parameters: Mapping[str, Any]
) -> str:
    """Return the sha256 that identifies a preparation's files (path, size, time of change) and its definition. Raises
    DatasetError for a missing file."""

    def describe(path: Path) -> tuple[str, int, int]:
        try:
            found = path.stat()
        except FileNotFoundError:
            raise DatasetError(f"{path}: no such file. Check its path.") from None
        except OSError as error:
            raise DatasetError(f"{path}: cannot be read: {error.strerror}. Check its path.") from None
        return str(path.resolve()), found.st_size, found.st_mtime_ns

    files = [[describe(path) for path in paths] for paths in (train_files, eval_files)]
    asked = [_VERSION, files, asdict(data), {**parameters}]
    return sha256(json.dumps(asked, sort_keys=True, default=str).encode()).hexdigest()


def write_progress(folder: Path, kept: SpoolProgress) -> None:
    """Write a preparation's progress to a file in `folder`, whole or not at all."""
    write_atomically(folder / PROGRESS, json.dumps(asdict(kept)))


def read_progress(folder: Path, asked: str) -> SpoolProgress | None:
    """Read the progress of a killed preparation; None if there is none to continue from.

    Progress of a preparation with another digest than `asked`, or a damaged file, counts as none.
    """
    if folder.is_symlink():
        return None
    try:
        found = msgspec.json.decode(read_regular(folder / PROGRESS, _MAX_BYTES), type=SpoolProgress)
    except (OSError, DatasetError, msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return found if found.asked == asked else None
