"""What turns values into ids, kept beside prepared data: rows of other files become what the model has seen."""

import hashlib
import math
import os
import re
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reference_models.data.prepared.dictionary import Dictionary
from reference_models.data.store.manifest import KEPT, file_sha256, kept_files
from reference_models.process.artifact import npy_header
from reference_models.process.atomic_write import replace_file
from reference_models.process.errors import DatasetError
from reference_models.process.open_file import open_regular

FOLDER = KEPT
_NUMBERS = "numbers"
_DICTIONARY = re.compile(r"[0-9]{5}\.npy")
_AGAIN = "Remove the folder and prepare the data again; its digest stays the same."


@contextmanager
def keeping(folder: Path, keeps: bool) -> Iterator[None]:
    """Make the place of what is kept beside the dataset in `folder`, if any is; remove it when what is done fails."""
    place = folder / FOLDER
    if not keeps:
        yield
        return
    if place.is_symlink():
        place.unlink()  # nothing is written where a link leads
    place.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise


def keep_dictionary(folder: Path, number: int, found: Dictionary) -> None:
    """Write the values of category column `number`, unsigned [u], in the order of their ids from 1."""
    _write(folder, f"{number:05}", found.values[np.argsort(found.ids)])


def keep_numbers(folder: Path, moments: NDArray[np.float64]) -> None:
    """Write what numbers are standardised by: mean and deviation [2, D], 0 and 1 of those that are not."""
    _write(folder, _NUMBERS, moments)


def digests_of(folder: Path, numbers: Iterable[int]) -> dict[str, str]:
    """Return the sha256 of the dictionaries of these category columns, and of the numbers, by name, for the manifest.

    Those of other columns are removed: a preparation of another definition left them as it was killed. Other files
    are not ours, and are neither listed nor touched.
    """
    names = [*(f"{number:05}.npy" for number in numbers), f"{_NUMBERS}.npy"]
    for path in (folder / FOLDER).iterdir():
        if _DICTIONARY.fullmatch(path.name) and path.name not in names and not path.is_dir():
            path.unlink()
    return {name: file_sha256(folder / FOLDER / name) for name in names}


def read_dictionary(folder: Path, manifest: Mapping[str, Any], number: int) -> Dictionary:
    """Read the dictionary of category column `number`. Raises DatasetError where it is missing or damaged."""
    size = manifest["num_embeddings"][number] - 1
    values = _read(folder, manifest, f"{number:05}", np.uint64, (size,))
    order = np.argsort(values, kind="stable")
    return Dictionary(values[order], (order + 1).astype(np.int32))


def read_numbers(folder: Path, manifest: Mapping[str, Any]) -> NDArray[np.float64]:
    """Read mean and deviation [2, D] of the numbers. Raises DatasetError where they are missing or damaged."""
    return _read(folder, manifest, _NUMBERS, np.float64, (2, manifest["num_dense"]))


def has_dictionary(folder: Path, number: int, num_embeddings: int) -> bool:
    """Return whether the dictionary of category column `number` is there, of a table of so many rows."""
    path, shape = _path_of(folder, f"{number:05}"), (num_embeddings - 1,)
    with suppress(OSError):
        found = path.lstat()
        return stat.S_ISREG(found.st_mode) and found.st_size == _num_bytes(np.uint64, shape)
    return False


def _path_of(folder: Path, name: str) -> Path:
    return folder / FOLDER / f"{name}.npy"


def _num_bytes(dtype: type[np.generic], shape: tuple[int, ...]) -> int:
    """Return the bytes of the whole file of an array, its header included."""
    return len(npy_header(np.dtype(dtype).name, shape)) + math.prod(shape) * np.dtype(dtype).itemsize


def _write(folder: Path, name: str, values: NDArray[Any]) -> None:
    plain = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
    with replace_file(_path_of(folder, name)) as file:
        file.write(npy_header(values.dtype.name, values.shape))
        file.write(plain.data)


def _read(
    folder: Path, manifest: Mapping[str, Any], name: str, dtype: type[np.generic], shape: tuple[int, ...]
) -> NDArray[Any]:
    path, known = _path_of(folder, name), dict(kept_files(folder, manifest))
    if path not in known:
        raise DatasetError(
            f"{folder}: no dictionaries are kept beside this data, so values of other files have no ids. {_AGAIN}"
        )
    header, num_bytes = npy_header(np.dtype(dtype).name, shape), _num_bytes(dtype, shape)
    try:
        with open_regular(path, follows=True) as file:
            found = os.fstat(file.fileno()).st_size
            if found != num_bytes:  # before anything is allocated for it
                raise DatasetError(f"{path}: {found:,} bytes, expected {num_bytes:,}. {_AGAIN}")
            content = file.read(num_bytes)
    except FileNotFoundError:
        raise DatasetError(f"{path}: missing, though the manifest lists it. {_AGAIN}") from None
    if hashlib.sha256(content).hexdigest() != known[path]:
        raise DatasetError(f"{path}: its sha256 is not that which the manifest says. {_AGAIN}")
    if not content.startswith(header):
        raise DatasetError(f"{path}: another header, expected that of {np.dtype(dtype)}{[*shape]}. {_AGAIN}")
    return np.frombuffer(content, np.dtype(dtype).newbyteorder("<"), offset=len(header)).reshape(shape)
