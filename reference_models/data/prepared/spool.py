"""Keep parsed rows on disk, a file per column, between parsing a user's files and writing the dataset.

Reads and writes are plain, without memory maps: they stay within the memory limit, and a full disk is an error
instead of a signal.
"""

import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

import numpy as np
from numpy.typing import NDArray

FOLDER = ".spool"
PROGRESS = "progress.json"
"""Name of the file with a preparation's progress, from which a killed preparation is continued."""
_BUFFER_BYTES = 1 << 18


@dataclass(frozen=True, slots=True)
class SpoolColumn:
    """Format of the file of a column of parsed rows: `width` values of NumPy type `dtype` per row."""

    dtype: str
    width: int = 1


class Spool:
    """Parsed rows on disk, a file for each column, in `folder`/.spool. The spool is removed at the end, unless the
    process is killed.

    `kept` describes columns that a killed preparation left, each of `num_rows` rows: a dict from the column's name to
    its file and format. Without `kept`, an older spool is removed first. Raises OSError, and ValueError if a file is
    shorter than recorded.
    """

    def __init__(
        self,
        folder: Path,
        columns: Mapping[str, SpoolColumn],
        kept: Mapping[str, tuple[str, SpoolColumn]] | None = None,
        num_rows: int = 0,
    ) -> None:
        self._folder = folder / FOLDER
        self._columns = {name: column for name, (_, column) in kept.items()} if kept else dict(columns)
        self._names = {name: file for name, (file, _) in kept.items()} if kept else {name: name for name in columns}
        self._stale: list[Path] = []
        """Files of columns that were replaced, needed to continue a killed preparation until the replacement is
        recorded on disk."""
        self._files: dict[str, BinaryIO] = {}
        self.num_rows = num_rows
        if not kept:
            remove_spool(folder)
            self._folder.mkdir()
        try:
            for name in self._columns:
                self._files[name] = self._begin(name, is_kept=bool(kept))
        except BaseException:  # for example too many open files
            self.remove()
            raise
        if kept:
            known = {*self._names.values(), PROGRESS}
            for path in self._folder.iterdir():
                if path.name not in known:
                    path.unlink()

    def _begin(self, name: str, *, is_kept: bool) -> BinaryIO:
        path = self._folder / self._names[name]
        if not is_kept:
            return path.open("wb", buffering=_BUFFER_BYTES)
        num_bytes = self.num_rows * self._row_bytes(name)
        file = os.fdopen(os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC), "r+b", buffering=_BUFFER_BYTES)
        if os.fstat(file.fileno()).st_size < num_bytes:
            file.close()
            raise ValueError(f"{path}: shorter than it was")
        file.truncate(num_bytes)
        file.seek(num_bytes)
        return file

    def _row_bytes(self, name: str) -> int:
        column = self._columns[name]
        return np.dtype(column.dtype).itemsize * column.width

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, OSError) and error.filename is None:
            # An error of a buffered write has no file name.
            error.filename = str(self._folder)
        self.remove()

    def append(self, rows: Mapping[str, NDArray[Any]]) -> None:
        """Append n rows to all columns: an array for each column, [n] or [n, width]."""
        num_rows = set()
        for name, values in rows.items():
            assert values.dtype == self._columns[name].dtype
            self._files[name].write(np.ascontiguousarray(values).data)
            num_rows.add(len(values))
        (added,) = num_rows
        self.num_rows += added

    def flush(self) -> None:
        for file in self._files.values():
            file.flush()

    def sync(self) -> None:
        """Sync the files of all columns to the disk, as needed before the preparation's progress is recorded."""
        for file in self._files.values():
            file.flush()
            os.fsync(file.fileno())

    @property
    def files(self) -> dict[str, tuple[str, str, int]]:
        """Dict from the name of each column of parsed rows to its file's name, NumPy type and values per row."""
        return {name: (self._names[name], column.dtype, column.width) for name, column in self._columns.items()}

    @property
    def folder(self) -> Path:
        """Folder of the files of parsed columns."""
        return self._folder

    @property
    def num_bytes(self) -> int:
        """Size in bytes of all parsed rows, over all columns."""
        return self.num_rows * sum(map(self._row_bytes, self._columns))

    @property
    def is_kept(self) -> bool:
        """Whether the preparation's progress is on disk, so that the preparation can be continued if it is killed
        now."""
        return (self._folder / PROGRESS).exists()

    def forget(self) -> None:
        """Remove the file of the preparation's progress, so that a preparation killed from now on begins anew."""
        (self._folder / PROGRESS).unlink(missing_ok=True)

    def drop_stale(self) -> None:
        """Remove the old files of replaced columns, which are no longer needed to continue a killed preparation."""
        while self._stale:
            self._stale.pop().unlink(missing_ok=True)

    def read(self, name: str, start: int, stop: int) -> NDArray[Any]:
        """Return rows start to stop - 1 of the column `name`: [n], or [n, width]."""
        column = self._columns[name]
        with (self._folder / self._names[name]).open("rb", buffering=0) as file:
            file.seek(start * self._row_bytes(name))
            values = np.fromfile(file, column.dtype, (stop - start) * column.width)
        return values if column.width == 1 else values.reshape(-1, column.width)

    @property
    def names(self) -> list[str]:
        """Names of the columns of parsed rows."""
        return [*self._columns]

    def column(self, name: str) -> SpoolColumn:
        """Return the format of the file of the column `name`."""
        return self._columns[name]

    def write(self, name: str, start: int, values: NDArray[Any]) -> None:
        """Overwrite the values of column `name` in the rows from `start` on."""
        with (self._folder / self._names[name]).open("r+b", buffering=0) as file:
            file.seek(start * self._row_bytes(name))
            view = np.ascontiguousarray(values).data.cast("B")
            while view:
                view = view[file.write(view) :]

    def add(self, name: str, pieces: Iterator[NDArray[np.uint32]]) -> None:
        """Add a column of type uint32, whose values `pieces` yields for all rows."""
        self.replace(name, SpoolColumn("uint32"), pieces)

    def drop(self, name: str) -> None:
        """Remove a column of parsed rows, and its file."""
        del self._columns[name]
        self._close(name)
        (self._folder / self._names.pop(name)).unlink()

    def replace(
        self, name: str, column: SpoolColumn, pieces: Iterator[NDArray[Any]], *, keeps_old: bool = False
    ) -> None:
        """Replace the column `name` by values of another type, from `pieces`, which may read the old values.

        With `keeps_old` the file of the old values stays on disk until `drop_stale`.
        """
        old = self._names.get(name)
        new = f"{name}.new" if old != f"{name}.new" else name
        with (self._folder / new).open("wb", buffering=_BUFFER_BYTES) as file:
            for values in pieces:
                file.write(np.ascontiguousarray(values).data)
            if keeps_old:
                file.flush()
                os.fsync(file.fileno())
        self._close(name)
        self._names[name], self._columns[name] = new, column
        if old is not None and keeps_old:
            self._stale.append(self._folder / old)
        elif old is not None:
            (self._folder / old).unlink()

    def _close(self, name: str) -> None:
        if name in self._files:
            self._files.pop(name).close()

    def remove(self) -> None:
        for file in self._files.values():
            try:
                file.close()
            except OSError:
                # On a full disk the last buffer cannot be written; the file is removed anyway.
                continue
        shutil.rmtree(self._folder, ignore_errors=True)


def category_name(feature: int) -> str:
    return f"category_{feature}"


def remove_spool(folder: Path) -> None:
    """Remove the parsed rows (spool) that a preparation left in `folder`."""
    shutil.rmtree(folder / FOLDER, ignore_errors=True)
