"""Parsed rows on disk, a file per column, between the pass that parses and the passes that number and write.

Plain reads and writes, no memory maps: they stay within the memory that was promised, and a full disk is an error
instead of a signal.
"""

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

import numpy as np
from numpy.typing import NDArray

FOLDER = ".spool"
_BUFFER_BYTES = 1 << 18


@dataclass(frozen=True, slots=True)
class Column:
    """How the rows of one file lie in it: `width` values of a type each."""

    dtype: str
    width: int = 1


class Spool:
    """Columns of rows below `folder`/.spool; what an interrupted preparation left there is removed first."""

    def __init__(self, folder: Path, columns: Mapping[str, Column]) -> None:
        self._folder = folder / FOLDER
        self._columns = dict(columns)
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir()
        self._files: dict[str, BinaryIO] = {}
        try:
            for name in columns:
                self._files[name] = (self._folder / name).open("wb", buffering=_BUFFER_BYTES)
        except OSError:  # such as too many open files
            self.remove()
            raise
        self.num_rows = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, OSError) and error.filename is None:
            # A buffered write names no file.
            error.filename = str(self._folder)
        self.remove()

    def append(self, rows: Mapping[str, NDArray[Any]]) -> None:
        """Append rows: an array for each column, [n] or [n, width]."""
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

    def read(self, name: str, start: int, stop: int) -> NDArray[Any]:
        """Read rows start to stop - 1 of one column: [n], or [n, width]."""
        column = self._columns[name]
        item_bytes = np.dtype(column.dtype).itemsize * column.width
        with (self._folder / name).open("rb", buffering=0) as file:
            file.seek(start * item_bytes)
            values = np.fromfile(file, column.dtype, (stop - start) * column.width)
        return values if column.width == 1 else values.reshape(-1, column.width)

    @property
    def names(self) -> list[str]:
        """The columns that are there."""
        return [*self._columns]

    def column(self, name: str) -> Column:
        """Say how a column lies in its file."""
        return self._columns[name]

    def write(self, name: str, start: int, values: NDArray[Any]) -> None:
        """Write other values over those of the rows from `start` on."""
        column = self._columns[name]
        with (self._folder / name).open("r+b", buffering=0) as file:
            file.seek(start * np.dtype(column.dtype).itemsize * column.width)
            view = np.ascontiguousarray(values).data.cast("B")
            while view:
                view = view[file.write(view) :]

    def add(self, name: str, pieces: Iterator[NDArray[np.uint32]]) -> None:
        """Add a column of whole numbers of all rows."""
        self.replace(name, Column("uint32"), pieces)

    def drop(self, name: str) -> None:
        """Remove a column."""
        del self._columns[name]
        if name in self._files:
            self._files.pop(name).close()
        (self._folder / name).unlink()

    def replace(self, name: str, column: Column, pieces: Iterator[NDArray[Any]]) -> None:
        """Put other rows in a column's place, of another type; `pieces` may read the old ones."""
        beside = self._folder / f"{name}.new"
        with beside.open("wb", buffering=_BUFFER_BYTES) as file:
            for values in pieces:
                file.write(np.ascontiguousarray(values).data)
        beside.replace(self._folder / name)
        self._columns[name] = column

    def remove(self) -> None:
        for file in self._files.values():
            try:
                file.close()
            except OSError:
                # On a full disk the last buffer cannot be written; the file goes anyway.
                continue
        shutil.rmtree(self._folder, ignore_errors=True)


def category_name(feature: int) -> str:
    return f"category_{feature}"
