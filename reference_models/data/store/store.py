"""Write, open and verify datasets in the store: arrays in files that are read by memory maps.

A dataset is a folder with `manifest.json` and, per split, a file for each array of its `Layout`. Clicks have the
files `<split>_labels.npy` uint8 [N] (float32 if labels are soft), `<split>_dense.npy` float32 [N, num_dense] and
`<split>_indices.npy` int32 [N, sum(multi_hot)]. The manifest is written last, by one rename, so a folder without it
is unfinished.
"""

import errno
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from reference_models.config.sections import DataConfig
from reference_models.data.store.dataset import OpenedDataset, Sizes
from reference_models.data.store.layout import CLICKS, SPLITS, Array, Layout
from reference_models.data.store.manifest import (
    AGAIN,
    MANIFEST,
    SOFT_LABELS,
    check_files,
    check_layout,
    compute_file_sha256,
    list_kept_files,
    list_manifest_files,
    read_manifest,
)
from reference_models.data.store.read_files import ReadFiles
from reference_models.process.atomic_write import create
from reference_models.process.errors import DatasetError, naming

_VERIFY_SAMPLES = 1 << 16


class Rows(Protocol):
    """Consecutive samples to write. Each array that the layout of their kind of data names as a `member` is an
    attribute."""

    def __len__(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Chunk:
    """Clicks to write, n consecutive ones: labels uint8 [n], or float32 if soft; dense features float32 [n, D]; ids
    of all tables int32 [n, H]."""

    labels: NDArray[np.uint8] | NDArray[np.float32]
    dense: NDArray[np.float32]
    indices: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.labels)


class SplitWriter:
    """Writer of a dataset's split, whose length is known. `write` may be called in any order and from any thread.

    Writes go through file descriptors: a full disk is then an OSError, not a SIGBUS as with memory maps.
    """

    def __init__(self, folder: Path, split: str, num_samples: int, sizes: Sizes, layout: Layout = CLICKS) -> None:
        self.num_samples = num_samples
        self._files = [
            (
                array.member,
                _ArrayFile(
                    folder / f"{split}_{array.file}.npy", (num_samples, *array.shape(sizes)), np.dtype(array.dtype)
                ),
            )
            for array in layout.arrays
        ]

    def write(self, start: int, rows: Rows) -> None:
        """Write `rows` as the split's samples start, start + 1, ... Raises ValueError if they do not fit the split.

        Arrays of the layout whose `member` is None are not written: they stay zero, as in a new file.
        """
        if start < 0 or start + len(rows) > self.num_samples:
            raise ValueError(f"samples {start} to {start + len(rows)} of a split of {self.num_samples}")
        for member, file in self._files:
            if member is not None:
                file.write(start, getattr(rows, member))

    def close(self) -> None:
        """Sync the files of the split's arrays to disk and close them."""
        for _, file in self._files:
            file.close()


class _ArrayFile:
    """File in .npy format of an array whose shape is known beforehand; rows are written in any order."""

    def __init__(self, path: Path, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self._path, self._dtype, self._columns = path, dtype, shape[1:]
        self._row_bytes = dtype.itemsize * int(np.prod(shape[1:], dtype=np.int64))
        path.unlink(missing_ok=True)  # a link in its place may lead to a user's file
        with naming(path), create(path) as file:
            header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(file, header)
            self._offset = file.tell()
        self._descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
        size = self._offset + shape[0] * self._row_bytes
        with naming(self._path):
            os.truncate(self._descriptor, size)
            self._reserve(size)

    def _reserve(self, size: int) -> None:
        """Reserve disk space for the whole file, so that a disk that is too small is found before any work."""
        if hasattr(os, "posix_fallocate"):
            try:
                os.posix_fallocate(self._descriptor, 0, size)
            except OSError as error:
                if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                    raise

    def write(self, start: int, rows: NDArray[Any]) -> None:
        if rows.dtype != self._dtype or rows.shape[1:] != self._columns:
            raise ValueError(f"{self._path.name} holds {self._dtype}{list(self._columns)}, got {rows.dtype}")
        left = np.ascontiguousarray(rows).reshape(-1).view(np.uint8).data
        offset = self._offset + start * self._row_bytes
        with naming(self._path):
            while left:
                written = os.pwrite(self._descriptor, left, offset)
                left, offset = left[written:], offset + written

    def close(self) -> None:
        try:
            with naming(self._path):
                os.fsync(self._descriptor)
        finally:
            os.close(self._descriptor)


@contextmanager
def unfinished(folder: Path, layout: Layout) -> Iterator[Path]:
    """Context manager that creates a dataset's folder, removes an old manifest, and yields the folder. If the `with`
    block raises an error, the dataset's files are removed.

    If the process is killed, arrays remain without a manifest: the dataset is unfinished and is made anew next time.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MANIFEST).unlink(missing_ok=True)
    try:
        yield folder
    except BaseException:
        for name in (*layout.files, MANIFEST):
            with suppress(OSError):
                (folder / name).unlink(missing_ok=True)
        raise


def verify(folder: Path, layout: Layout = CLICKS, on_bytes: Callable[[int], None] | None = None) -> dict[str, Any]:
    """Check all files' sha256 and every value of a dataset (such as ids, labels 0 or 1), and return its manifest.

    Raises DatasetError that names the first wrong file and sample. `on_bytes` gets the number of bytes just hashed.
    """
    manifest = read_manifest(folder)
    check_layout(folder, manifest, layout)
    for path, entry in list_manifest_files(folder, manifest):
        if (found := compute_file_sha256(path, on_bytes)) != entry["sha256"]:
            raise DatasetError(f"{path}: sha256 is {found}, the manifest says {entry['sha256']}. {AGAIN}")
    for path, wanted in list_kept_files(folder, manifest):
        if not path.is_file():
            raise DatasetError(f"{path}: missing, though the manifest lists it. {AGAIN}")
        if (found := compute_file_sha256(path)) != wanted:
            raise DatasetError(f"{path}: sha256 is {found}, the manifest says {wanted}. {AGAIN}")
    for split in SPLITS:
        StoreSplit(folder, split, manifest, layout).check_samples()
    return manifest


class StoreSplit:
    """Split of a dataset in the store (a folder of arrays with a manifest), read by slices of memory maps."""

    def __init__(
        self,
        folder: Path,
        split: str,
        manifest: Mapping[str, Any],
        layout: Layout = CLICKS,
        files: ReadFiles | None = None,
    ) -> None:
        self._folder, self._split, self._layout = folder, split, layout
        self._files = ReadFiles() if files is None else files
        self._arrays: dict[str, NDArray[Any]] | None = None
        self.num_samples = int(manifest["splits"][split])
        self.num_dense = int(manifest["num_dense"])
        self.has_soft_labels = SOFT_LABELS in manifest
        self.num_embeddings: tuple[int, ...] = tuple(manifest["num_embeddings"])
        self.multi_hot: tuple[int, ...] = tuple(manifest["multi_hot"])

    def read(self, start: int, stop: int) -> Any:
        """Return samples start to stop - 1 of the split. Raises DatasetError if files do not fit the manifest."""
        batch = self._layout.batch.empty(self, max(0, min(stop, self.num_samples) - start))
        self.read_into(start, stop, batch)
        return batch

    def read_into(self, start: int, stop: int, batch: Any) -> None:
        """Read the split's samples start to stop - 1 into a batch without an intermediate copy. Raises DatasetError
        if files do not fit the manifest."""
        arrays = self._mapped()
        self._files.samples_read += max(0, stop - start)
        for array in self._layout.arrays:
            if array.member is not None:
                np.copyto(getattr(batch, array.member).numpy(), arrays[array.file][start:stop])

    def check_samples(self) -> None:
        """Check every value of the split's arrays. Raises DatasetError that names the first invalid value."""
        arrays = self._mapped()
        for start in range(0, self.num_samples, _VERIFY_SAMPLES):
            for array in self._layout.arrays:
                values = arrays[array.file][start : start + _VERIFY_SAMPLES]
                wrong = array.is_wrong(values, self)
                if wrong.any():
                    row, *column = (int(i) for i in np.argwhere(wrong)[0])
                    place = f"sample {start + row}" + (f", column {column[0]}" if column else "")
                    what = f"{place} is {values[(row, *column)]}, expected {array.expected}"
                    raise DatasetError(f"{self._path(array)}: {what}. {AGAIN}")

    def _mapped(self) -> dict[str, NDArray[Any]]:
        if self._arrays is None:
            self._arrays = {array.file: self._map(array) for array in self._layout.arrays}
        return self._arrays

    def _path(self, array: Array) -> Path:
        return self._folder / f"{self._split}_{array.file}.npy"

    def _map(self, array: Array) -> NDArray[Any]:
        path = self._path(array)
        try:
            with self._files.open(path) as file:
                mapped = _map_npy(file)
        except (OSError, ValueError, EOFError) as error:
            if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
                raise  # lack of memory is no damage
            raise DatasetError(f"{path}: cannot be mapped ({error}). {AGAIN}") from None
        expected = (self.num_samples, *array.shape(self))
        if mapped.shape != expected or mapped.dtype != array.dtype:
            found = f"{mapped.dtype}{list(mapped.shape)}"
            wanted = f"{np.dtype(array.dtype)}{list(expected)}"
            raise DatasetError(f"{path}: holds {found}, the manifest says {wanted}. {AGAIN}")
        return mapped


def _map_npy(file: BinaryIO) -> NDArray[Any]:
    """Map the array of an open .npy file written by `SplitWriter`. Raises ValueError for any other file."""
    if (version := np.lib.format.read_magic(file)) != (1, 0):
        raise ValueError(f"version {version} of the .npy format, expected (1, 0)")
    shape, is_fortran, dtype = np.lib.format.read_array_header_1_0(file)
    if dtype.hasobject:
        raise ValueError("an array of objects")
    order: Literal["F", "C"] = "F" if is_fortran else "C"
    return np.memmap(file, dtype=dtype, mode="r", offset=file.tell(), shape=shape, order=order)


def open_store(folder: Path, data: DataConfig, layout: Layout = CLICKS) -> OpenedDataset:
    """Open a stored dataset and compare its manifest with the definition; no sample is read. Raises DatasetError."""
    manifest = read_manifest(folder)
    check_layout(folder, manifest, layout)
    check_files(folder, manifest)
    if (is_soft := SOFT_LABELS in manifest) != data.has_soft_labels:
        kinds = ("0 or 1", "soft, from 0 to 1")
        raise DatasetError(
            f"{folder / MANIFEST}: labels are {kinds[is_soft]}, the benchmark's definition says "
            f"{kinds[data.has_soft_labels]}. It is another dataset: give another --data folder or make this one "
            "again."
        )
    found = {
        "kind": manifest["kind"],
        "multi_hot": tuple(manifest["multi_hot"]),
        "num_dense": manifest["num_dense"],
        "num_embeddings": tuple(manifest["num_embeddings"]),
        "sha256": manifest["dataset_sha256"],
        "train_samples": manifest["splits"]["train"],
        "eval_samples": manifest["splits"]["eval"],
    }
    for field, value in found.items():
        wanted = getattr(data, field)
        if wanted and wanted != value:
            raise DatasetError(
                f"{folder / MANIFEST}: {field} is {value}, the benchmark's definition says {wanted}. "
                "It is another dataset: give another --data folder or make this one again."
            )
    read_files = ReadFiles(folder / name for name in manifest["files"])
    return OpenedDataset(
        train=StoreSplit(folder, "train", manifest, layout, read_files),
        eval=StoreSplit(folder, "eval", manifest, layout, read_files),
        dataset_sha256=manifest["dataset_sha256"],
        files={str(folder / name): int(entry["bytes"]) for name, entry in manifest["files"].items()},
        read_files=read_files,
    )
