"""Storage of named arrays in a folder, <name>.npy and manifest.json: written whole or not at all, verified when read.

The folder appears by one rename, after all its files are on the disk. Readers use neither the manifest nor any file
before sizes, headers and digests agree. The manifest has an entry for each array; its other members are defined by
the module that writes the folder.
"""

import hashlib
import math
import os
import re
import shutil
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np
from numpy.typing import NDArray

from reference_models.process.atomic_write import create, draft_of, remove, remove_drafts, sync_folder
from reference_models.process.errors import ArtifactError, ConfigError, naming

MANIFEST_FILE = "manifest.json"
_BLOCK_BYTES = 1 << 22
_TYPES = ("float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "bool")
_NAME = re.compile(r"[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)*")
"""Pattern of the name of a stored array, words with dots between: as a file name it cannot lead to another folder."""
_MAX_NAME = 200


class StoredArray(Protocol):
    """Entry of an array in the manifest of a folder of arrays; the array has a file of its own."""

    @property
    def dtype(self) -> str: ...

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def num_bytes(self) -> int:
        """Bytes of the array's whole .npy file, its header included."""

    @property
    def sha256(self) -> str:
        """SHA-256 digest of the array's whole .npy file."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WrittenArray:
    """Manifest entry of an array whose file was just written."""

    dtype: str
    shape: tuple[int, ...]
    num_bytes: int
    sha256: str


def write_artifact(
    target: Path,
    arrays: Mapping[str, NDArray[Any]],
    describe: Callable[[Mapping[str, WrittenArray]], str],
    write_more: Callable[[Path], object] = lambda draft: None,
) -> Mapping[str, WrittenArray]:
    """Write named arrays and a manifest as the folder `target`; return the arrays' entries for the manifest.

    `describe` makes the manifest's text from the entries. All files are first written to a draft of the folder;
    `write_more` may add further files to the draft. Then the draft is renamed. It replaces an older folder `target`.
    Drafts of killed processes are removed, so only one process at a time may write `target`. Raises ConfigError if an
    array's name or type cannot be stored, OSError if writing fails. If writing the draft fails, `target` is
    unchanged.
    """
    for name, array in arrays.items():
        if len(name) > _MAX_NAME or _NAME.fullmatch(name) is None:
            raise ConfigError(f"an array named {name!r:.80} cannot be kept: expected words with dots between them.")
        if array.dtype.name not in _TYPES:
            raise ConfigError(f"{name}: an array of type {array.dtype.name} cannot be kept.")
    remove_drafts(target)
    draft = draft_of(target)
    draft.mkdir()
    try:
        written = {name: _write_array(draft / f"{name}.npy", array) for name, array in arrays.items()}
        _write(draft / MANIFEST_FILE, [memoryview(describe(written).encode())])
        write_more(draft)
        sync_folder(draft)
        remove(target)
        draft.rename(target)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    sync_folder(target.parent)
    return written


def check_artifact(folder: Path, arrays: Mapping[str, StoredArray]) -> None:
    """Raise ArtifactError unless the folder's array files are plain files of the right length; opens no file."""
    for name, stored in arrays.items():
        if stored.dtype not in _TYPES:
            raise _damaged(f"{folder / MANIFEST_FILE}: {name}.dtype", stored.dtype, f"one of {', '.join(_TYPES)}")
        num_values, header = math.prod(stored.shape), make_npy_header(stored.dtype, stored.shape)
        expected = len(header) + num_values * np.dtype(stored.dtype).itemsize
        if stored.num_bytes != expected:
            place = f"{folder / MANIFEST_FILE}: {name}.num_bytes"
            raise _damaged(place, f"{stored.num_bytes:,}", f"{expected:,}, as its shape and type ask for")
        path = folder / f"{name}.npy"
        try:
            found = path.lstat()
        except OSError as error:
            raise _damaged(path, error.strerror or "nothing", "the file of an array") from None
        if not stat.S_ISREG(found.st_mode):
            raise _damaged(path, "no regular file", "the file of an array")
        if found.st_size != stored.num_bytes:
            raise _damaged(path, f"{found.st_size:,} bytes", f"{stored.num_bytes:,}, as the manifest says")


def read_arrays(folder: Path, arrays: Mapping[str, StoredArray]) -> dict[str, NDArray[Any]]:
    """Return the arrays of a folder that `check_artifact` accepted, verifying every byte. Raises ArtifactError if a
    file is damaged."""
    return {name: _read_array(folder / f"{name}.npy", stored) for name, stored in arrays.items()}


def make_npy_header(dtype: str, shape: tuple[int, ...]) -> bytes:
    """Return the header of a .npy file (format 1.0) whose array is in C order: the only form of header that is
    written and accepted.

    Readers make the header from the manifest and compare, so no untrusted header is parsed.
    """
    described = np.dtype(dtype).newbyteorder("<").str
    numbers = ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "")
    text = f"{{'descr': '{described}', 'fortran_order': False, 'shape': ({numbers}), }}"
    padding = -(10 + len(text) + 1) % 64
    return (
        b"\x93NUMPY\x01\x00" + (len(text) + padding + 1).to_bytes(2, "little") + f"{text}{' ' * padding}\n".encode()
    )


def _write_array(path: Path, array: NDArray[Any]) -> WrittenArray:
    array = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"), copy=False)).reshape(array.shape)
    header = make_npy_header(array.dtype.name, array.shape)
    digest = _write(path, [memoryview(header), *_blocks(array)])
    return WrittenArray(
        dtype=array.dtype.name, shape=array.shape, num_bytes=len(header) + array.nbytes, sha256=digest
    )


def _write(path: Path, blocks: list[memoryview]) -> str:
    """Write blocks of bytes as a new file, synced to disk; return the file's sha256."""
    digest = hashlib.sha256()
    with naming(path), create(path) as file:
        for block in blocks:
            digest.update(block)
            file.write(block)
        file.flush()
        os.fsync(file.fileno())
    return digest.hexdigest()


def _blocks(array: NDArray[Any]) -> list[memoryview]:
    """Return an array's memory as blocks of bytes; none for an empty array."""
    if array.size == 0:
        return []
    whole = memoryview(array.reshape(-1).view(np.uint8).data)
    return [whole[start : start + _BLOCK_BYTES] for start in range(0, len(whole), _BLOCK_BYTES)]


def _read_array(path: Path, stored: StoredArray) -> NDArray[Any]:
    header, digest = make_npy_header(stored.dtype, stored.shape), hashlib.sha256()
    array = np.empty(stored.shape, np.dtype(stored.dtype).newbyteorder("<"))
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            _check_header(file, header, path, stored)
            digest.update(header)
            for block in _blocks(array):
                if file.readinto(block) != len(block):
                    raise _damaged(path, "an end too early", f"{stored.num_bytes:,} bytes")
                digest.update(block)
    except OSError as error:
        raise _damaged(path, error.strerror or "an error of the disk", "a file that can be read") from None
    if digest.hexdigest() != stored.sha256:
        raise _damaged(path, f"sha256 {digest.hexdigest()[:12]}…", f"{stored.sha256[:12]}…, as the manifest says")
    return array


def _check_header(file: BinaryIO, header: bytes, path: Path, stored: StoredArray) -> None:
    if file.read(len(header)) != header:
        shape = " x ".join(map(str, stored.shape)) or "one value"
        raise _damaged(path, "another header", f"that of {stored.dtype}, {shape}, as the manifest says")


def _damaged(place: Path | str, found: str, expected: str) -> ArtifactError:
    return ArtifactError(f"{place}: found {found}, expected {expected}.")
