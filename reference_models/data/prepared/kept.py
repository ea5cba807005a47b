"""Store dictionaries of category values, and means and deviations of dense features, with prepared data, so that
other files can be encoded in the same way as the training data."""

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
from reference_models.data.store.manifest import KEPT, compute_file_sha256, list_kept_files
from reference_models.process.artifact import make_npy_header
from reference_models.process.atomic_write import replace_file
from reference_models.process.errors import DatasetError
from reference_models.process.open_file import open_regular

FOLDER = KEPT
_NUMBERS = "numbers"
_DICTIONARY = re.compile(r"[0-9]{5}\.npy")
_AGAIN = "Remove the folder and prepare the data again; its digest stays the same."


@contextmanager
def keeping(folder: Path, keeps: bool) -> Iterator[None]:
    """Create the folder of dictionaries in a dataset's `folder`, and remove it if an error is raised in the `with`
    block. Do nothing if `keeps` is false, that is if the kind of data stores no dictionaries."""
    place = folder / FOLDER
    if not keeps:
        yield
        return
    if place.is_symlink():
        place.unlink()  # nothing is written through a link
    place.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise


def keep_dictionary(folder: Path, number: int, found: Dictionary) -> None:
    """Write the dictionary of category column `number`: values unsigned [u] in the order of their ids from 1."""
    _write(folder, f"{number:05}", found.values[np.argsort(found.ids)])


def keep_numbers(folder: Path, moments: NDArray[np.float64]) -> None:
    """Write mean and standard deviation [2, D] of dense features, 0 and 1 for those that are not standardised."""
    _write(folder, _NUMBERS, moments)


def digests_of(folder: Path, numbers: Iterable[int]) -> dict[str, str]:
    """Return a dict from file name to sha256, for the dataset's manifest: one entry for each dictionary of `numbers`,
    and one for the file of means and standard deviations.

    Other dictionaries in the folder are removed: a killed preparation with another definition may have left them. Any
    other files are neither listed nor touched.
    """
    names = [*(f"{number:05}.npy" for number in numbers), f"{_NUMBERS}.npy"]
    for path in (folder / FOLDER).iterdir():
        if _DICTIONARY.fullmatch(path.name) and path.name not in names and not path.is_dir():
            path.unlink()
    return {name: compute_file_sha256(folder / FOLDER / name) for name in names}


def read_dictionary(folder: Path, manifest: Mapping[str, Any], number: int) -> Dictionary:
    """Read the dictionary of category column `number`. Raises DatasetError if it is missing or damaged."""
    size = manifest["num_embeddings"][number] - 1
    values = _read(folder, manifest, f"{number:05}", np.uint64, (size,))
    order = np.argsort(values, kind="stable")
    return Dictionary(values[order], (order + 1).astype(np.int32))


def read_numbers(folder: Path, manifest: Mapping[str, Any]) -> NDArray[np.float64]:
    """Read mean and standard deviation [2, D] of dense features. Raises DatasetError if missing or damaged."""
    return _read(folder, manifest, _NUMBERS, np.float64, (2, manifest["num_dense"]))


def has_dictionary(folder: Path, number: int, num_embeddings: int) -> bool:
    """Return whether the dictionary file of category column `number` exists, with the size of a file for
    `num_embeddings` ids."""
    path, shape = _path_of(folder, f"{number:05}"), (num_embeddings - 1,)
    with suppress(OSError):
        found = path.lstat()
        return stat.S_ISREG(found.st_mode) and found.st_size == _num_bytes(np.uint64, shape)
    return False


def _path_of(folder: Path, name: str) -> Path:
    return folder / FOLDER / f"{name}.npy"


def _num_bytes(dtype: type[np.generic], shape: tuple[int, ...]) -> int:
    """Return the size in bytes of the .npy file, header included, of an array of the type `dtype` and the shape
    `shape`."""
    return len(make_npy_header(np.dtype(dtype).name, shape)) + math.prod(shape) * np.dtype(dtype).itemsize


def _write(folder: Path, name: str, values: NDArray[Any]) -> None:
    plain = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
    with replace_file(_path_of(folder, name)) as file:
        file.write(make_npy_header(values.dtype.name, values.shape))
        file.write(plain.data)


def _read(
    folder: Path, manifest: Mapping[str, Any], name: str, dtype: type[np.generic], shape: tuple[int, ...]
) -> NDArray[Any]:
    path, known = _path_of(folder, name), dict(list_kept_files(folder, manifest))
    if path not in known:
        raise DatasetError(
            f"{folder}: no dictionaries are kept beside this data, so values of other files have no ids. {_AGAIN}"
        )
    header, num_bytes = make_npy_header(np.dtype(dtype).name, shape), _num_bytes(dtype, shape)
    try:
        with open_regular(path, follows=True) as file:
            found = os.fstat(file.fileno()).st_size
            if found != num_bytes:  # before memory is allocated
                raise DatasetError(f"{path}: {found:,} bytes, expected {num_bytes:,}. {_AGAIN}")
            content = file.read(num_bytes)
    except FileNotFoundError:
        raise DatasetError(f"{path}: missing, though the manifest lists it. {_AGAIN}") from None
    if hashlib.sha256(content).hexdigest() != known[path]:
        raise DatasetError(f"{path}: its sha256 is not that which the manifest says. {_AGAIN}")
    if not content.startswith(header):
        raise DatasetError(f"{path}: another header, expected that of {np.dtype(dtype)}{[*shape]}. {_AGAIN}")
    return np.frombuffer(content, np.dtype(dtype).newbyteorder("<"), offset=len(header)).reshape(shape)
