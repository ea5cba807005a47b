"""Parsed rows on disk, a file per column, between the pass that parses and the passes that number and write.

Plain reads and writes, no memory maps: they stay within the memory that was promised, and a full disk is an error
instead of a signal.
"""

import shutil
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from reference_models.config.sections import NUM_CRITEO_SPARSE
from reference_models.data.criteo.parse import ParsedRows, transform_integers

FOLDER = ".spool"
_BUFFER_BYTES = 1 << 18


class Spool:
    """Columns of rows below `folder`/.spool; what an interrupted preparation left there is removed first."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / FOLDER
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir()
        self._files = {
            name: (self._folder / name).open("wb", buffering=_BUFFER_BYTES)
            for name in ("labels", "dense", *map(category_name, range(NUM_CRITEO_SPARSE)))
        }
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

    def append(self, rows: ParsedRows) -> None:
        self._files["labels"].write(rows.labels.tobytes())
        self._files["dense"].write(transform_integers(rows.integers).tobytes())
        for feature, column in enumerate(rows.categories.T):
            self._files[category_name(feature)].write(column.tobytes())
        self.num_rows += len(rows.labels)

    def flush(self) -> None:
        for file in self._files.values():
            file.flush()

    def read(self, name: str, dtype: DTypeLike, start: int, stop: int, width: int = 1) -> NDArray[Any]:
        """Read rows start to stop - 1 of one column: [n], or [n, width]."""
        item_bytes = np.dtype(dtype).itemsize * width
        with (self._folder / name).open("rb", buffering=0) as file:
            file.seek(start * item_bytes)
            values = np.fromfile(file, dtype, (stop - start) * width)
        return values if width == 1 else values.reshape(-1, width)

    def overwrite(self, name: str, start: int, values: NDArray[Any]) -> None:
        """Replace rows from `start` on by others of the same width."""
        with (self._folder / name).open("r+b", buffering=0) as file:
            file.seek(start * values.itemsize)
            file.write(values.tobytes())

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
