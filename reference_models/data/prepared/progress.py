"""How far a preparation is, beside its spool: a killed one goes on from there.

It is written after files were parsed and columns were numbered, once the spool is on disk. It is used by a
preparation of the same files (path, size, time of change) and definition, and by no other.
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
from reference_models.data.prepared.spool import PROGRESS, Column, category_name
from reference_models.process.atomic_write import write_atomically
from reference_models.process.errors import DatasetError
from reference_models.process.open_file import read_regular

_VERSION = 2
"""Raised whenever the spool's rows, or what is kept of the numbering, are made in another way."""
_MAX_BYTES = 1 << 28


@dataclass(kw_only=True, slots=True)
class SpoolProgress:
    """What is done. `asked` is the digest of what the preparation was asked for."""

    asked: str
    num_rows: int = 0
    """Rows in each of the spool's columns."""
    columns: dict[str, tuple[str, str, int]] = field(default_factory=dict)
    """The file of each column, its type and values per row."""
    is_parsed: bool = False
    """Whether all files are, and rows are in their order."""
    tally: dict[str, Any] = field(default_factory=dict)
    """What was counted while files were parsed."""
    reader: dict[str, Any] = field(default_factory=dict)
    """What the reader knows of the files before."""
    numbered: list[tuple[int, ColumnLook]] = field(default_factory=list)
    """For each category that was numbered its table's rows, and what was seen of it."""

    def is_of(self, columns: Mapping[str, Column], num_tables: int) -> bool:
        """Return whether it may be of a spool of these columns, the last `num_tables` of which are categories'."""
        done = [category_name(number) for number in range(len(self.numbered))]
        forms = {name: (Column("int32", each.width) if name in done else each) for name, each in columns.items()}
        return (
            self.num_rows >= 0
            and len(self.numbered) <= num_tables
            and self.is_parsed >= bool(self.numbered)
            and {name: Column(dtype, width) for name, (_, dtype, width) in self.columns.items()} == forms
            and all(file in (name, f"{name}.new") for name, (file, *_) in self.columns.items())
        )


def digest_of(
    train_files: Sequence[Path], eval_files: Sequence[Path], data: DataConfig, parameters: Mapping[str, Any]
) -> str:
    """Return the digest of what a preparation is asked for. Raises DatasetError for a file that is not there."""

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
    """Write it, whole or not at all."""
    write_atomically(folder / PROGRESS, json.dumps(asdict(kept)))


def read_progress(folder: Path, asked: str) -> SpoolProgress | None:
    """Read what a killed preparation left; None where there is nothing that can be gone on from.

    What is there of another preparation, or is damaged, is nothing.
    """
    if folder.is_symlink():
        return None
    try:
        found = msgspec.json.decode(read_regular(folder / PROGRESS, _MAX_BYTES), type=SpoolProgress)
    except (OSError, DatasetError, msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return found if found.asked == asked else None
