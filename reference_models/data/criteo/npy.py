"""Locate arrays inside .npy files and uncompressed .npz files, to memory-map them in place.

Only headers are read here. `numpy.load` cannot map the members of an .npz file; the arrays of the official
multi-hot set are members of up to 78 GB, so they are located by the zip file's directory and mapped directly.
"""

import struct
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from reference_models.data.store.read_files import ReadFiles
from reference_models.process.errors import DatasetError
from reference_models.process.open_file import open_regular

_LOCAL_HEADER = struct.Struct("<4s22xHH")
_LOCAL_SIGNATURE = b"PK\x03\x04"


@dataclass(frozen=True, kw_only=True, slots=True)
class ArrayPlace:
    """Place of an array of `shape` and `dtype` in the file `path`: `offset_bytes` after the file's start."""

    path: Path
    member: str | None = None
    offset_bytes: int = 0
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran_order: bool = False

    @property
    def num_bytes(self) -> int:
        return int(np.prod(self.shape, dtype=object)) * self.dtype.itemsize

    def map(self, files: ReadFiles) -> NDArray[Any]:
        """Return a read-only memory map of the array, in the file that `files` has open. Reads no data."""
        if self.num_bytes == 0:
            return np.empty(self.shape, self.dtype)
        try:
            with files.open(self.path) as file:
                return np.memmap(
                    file,
                    dtype=self.dtype,
                    mode="r",
                    offset=self.offset_bytes,
                    shape=self.shape,
                    order="F" if self.fortran_order else "C",
                )
        except (OSError, ValueError) as error:
            raise DatasetError(f"{self}: cannot be mapped ({error}).") from None

    def __str__(self) -> str:
        return str(self.path) if self.member is None else f"{self.path}[{self.member}]"


def locate_npy(path: Path) -> ArrayPlace:
    """Return the place of a .npy file's array. Raises DatasetError for a file that is missing, is no .npy file, or
    has another length than its header says."""
    with open_data(path) as file:
        place = _read_header(file, path, None)
        return _check_length(place, path.stat().st_size - place.offset_bytes)


def locate_npz(path: Path) -> dict[str, ArrayPlace]:
    """Return a dict from the name of each array of an uncompressed .npz file, without `.npy`, to the array's place.
    Raises DatasetError if the file is missing, damaged or compressed."""
    with open_data(path) as file:
        try:
            with zipfile.ZipFile(file) as archive:
                members = archive.infolist()
        except (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError, struct.error) as error:
            raise DatasetError(
                f"{path}: not a complete .npz file ({error}). Its directory stands at the end, so a file that was "
                "cut short has none: copy it again."
            ) from None
        return {info.filename.removesuffix(".npy"): _locate_member(file, path, info) for info in members}


def open_data(path: Path) -> BinaryIO:
    """Open a data file for reading. Raises DatasetError if it is missing or unreadable."""
    try:
        return open_regular(path, follows=True)
    except FileNotFoundError:
        raise DatasetError(f"{path}: missing. Give the folder that holds the preprocessed files as --data.") from None
    except OSError as error:
        raise DatasetError(f"{path}: cannot be read: {error.strerror}.") from None


def _locate_member(file: BinaryIO, path: Path, info: zipfile.ZipInfo) -> ArrayPlace:
    if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 0x1:
        raise DatasetError(
            f"{path}[{info.filename}]: compressed or encrypted, so it cannot be memory-mapped. "
            "Write the file with numpy.savez, not savez_compressed."
        )
    file.seek(max(0, info.header_offset))
    raw = file.read(_LOCAL_HEADER.size)
    if info.header_offset < 0 or len(raw) < _LOCAL_HEADER.size or raw[:4] != _LOCAL_SIGNATURE:
        raise DatasetError(f"{path}[{info.filename}]: the zip directory points at no member. Copy the file again.")
    _, name_bytes, extra_bytes = _LOCAL_HEADER.unpack(raw)
    start = info.header_offset + _LOCAL_HEADER.size + name_bytes + extra_bytes
    file.seek(start)
    place = _read_header(file, path, info.filename)
    return _check_length(place, info.file_size - (place.offset_bytes - start))


def _read_header(file: BinaryIO, path: Path, member: str | None) -> ArrayPlace:
    name = str(path) if member is None else f"{path}[{member}]"
    try:
        version = np.lib.format.read_magic(file)
        read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
        shape, fortran_order, dtype = read(file)
    except Exception as error:
        # numpy parses the header as Python source, so damage surfaces as almost anything, tokenizer errors included.
        raise DatasetError(f"{name}: not a .npy array ({error}). Copy or preprocess it again.") from None
    if dtype.hasobject or dtype.itemsize == 0:
        raise DatasetError(f"{name}: holds {dtype}, expected numbers.")
    return ArrayPlace(
        path=path,
        member=member,
        offset_bytes=file.tell(),
        shape=tuple(int(length) for length in shape),
        dtype=dtype,
        fortran_order=bool(fortran_order),
    )


def _check_length(place: ArrayPlace, found_bytes: int) -> ArrayPlace:
    if any(length < 0 for length in place.shape) or found_bytes != place.num_bytes:
        raise DatasetError(
            f"{place}: {found_bytes} bytes of data, its header (shape {place.shape}, {place.dtype}) asks for "
            f"{place.num_bytes}. It was cut short or damaged: copy or preprocess it again."
        )
    return place
