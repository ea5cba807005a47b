"""Load tensors from untrusted files of torch.save, in memory that is at most a small multiple of the file's bytes.

torch.load(weights_only=True) runs no code of a file, but it allocates as much memory as the file asks for. A small
file can ask for a large amount in three ways: the file format before torch 1.6 states sizes; an archive may be
compressed; and a pickle may ask for bytes and storages of any size.
"""

import io
import pickletools
import struct
import zipfile
from collections.abc import Iterator
from typing import Any, BinaryIO

_MAX_LISTED_BYTES = _MAX_PICKLE_BYTES = 1 << 16
"""Maximum size in bytes of a torch archive's list of files, and of its pickle. For three tensors they have 600 and
250 bytes."""
_NAMES = {
    "torch._utils _rebuild_tensor_v2",
    "collections OrderedDict",
    "torch LongStorage",
    "torch IntStorage",
    "torch FloatStorage",
    "torch DoubleStorage",
}
"""Python globals (classes, functions) that a pickle may name if it holds only plain tensors."""
_CODES = {
    "PROTO", "STOP", "MARK", "GLOBAL", "REDUCE", "BINPERSID", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "EMPTY_TUPLE",
    "EMPTY_LIST", "APPEND", "APPENDS", "BINUNICODE", "SHORT_BINUNICODE", "BININT", "BININT1", "BININT2", "LONG1",
    "NEWTRUE", "NEWFALSE", "NONE", "BINPUT", "BINGET", "LONG_BINPUT", "LONG_BINGET",
}  # fmt: skip
"""Pickle opcodes that occur in a pickle of plain tensors in tuples or lists; any other opcode is refused."""


def load_tensors(file: BinaryIO, max_bytes: int) -> tuple[Any, int]:
    """Load a file that torch.save wrote in its format since torch 1.6. Return its content and the number of bytes of
    its tensors' data.

    Loading takes about twice the file's bytes of memory. Raises ValueError if the file is not an archive of plain
    tensors, MemoryError if it needs more than `max_bytes`, and any error of torch.load.
    """
    import torch

    if file.seek(0, io.SEEK_END) > max_bytes:
        raise MemoryError
    parts = dict(_read_parts(file))
    pickled = [name for name in parts if name.endswith("/data.pkl")]
    if len(pickled) != 1:
        raise ValueError("no archive of one pickle")
    refuse_calls(parts[pickled[0]])
    again = io.BytesIO()  # written anew with one directory: torch's reader may find another one than Python's
    with zipfile.ZipFile(again, "w") as archive:
        for name, content in parts.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    folder = pickled[0].removesuffix("data.pkl") + "data/"
    num_bytes = sum(len(content) for name, content in parts.items() if name.startswith(folder))
    parts.clear()
    again.seek(0)
    return torch.load(again, weights_only=True, map_location="cpu"), num_bytes


def refuse_calls(pickled: bytes) -> None:
    """Raise ValueError, without executing the pickle, if it holds anything but plain tensors in tuples and lists."""
    if len(pickled) > _MAX_PICKLE_BYTES:
        raise ValueError(f"its pickle has {len(pickled):,} bytes, more than {_MAX_PICKLE_BYTES:,}")
    for code, argument, _ in pickletools.genops(pickled):
        if code.name == "GLOBAL" and argument not in _NAMES:
            raise ValueError(f"its pickle names {str(argument).replace(' ', '.')!r:.80}, which is not loaded")
        if code.name not in _CODES:
            raise ValueError(f"its pickle does {code.name}, which no plain tensor needs")


def _read_parts(file: BinaryIO) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of each file in a zip archive. Raises ValueError if a file is compressed, or if the
    files together are larger than the archive."""
    num_left = _refuse_long_list(file)
    with zipfile.ZipFile(file) as archive:
        for entry in archive.infolist():
            num_left -= entry.file_size
            if entry.compress_type != zipfile.ZIP_STORED or entry.file_size != entry.compress_size or num_left < 0:
                raise ValueError(f"{entry.filename!r:.80} is compressed or larger than the archive")
            yield entry.filename, archive.read(entry)


def _refuse_long_list(file: BinaryIO) -> int:
    """Return a torch archive's size in bytes. Raises ValueError if the file does not end as torch writes archives, or
    if the archive's list of files is too long.

    A zip archive ends in a record of 22 bytes, which states the size of its list of files. Archives of more than 4
    GiB, and all archives of torch, have two more records before it: one of 56 bytes, then a locator of 20 bytes. In
    such an archive the size in the record of 56 bytes counts (PKWARE's APPNOTE.TXT, 4.3).
    """
    num_bytes = file.seek(0, io.SEEK_END)
    file.seek(max(0, num_bytes - 98))
    tail = file.read(98)
    end, locator, large = tail[-22:], tail[-42:-22], tail[-98:-42]
    if end[:4] != b"PK\5\6" or end[-2:] != b"\0\0" or len(end) != 22:
        raise ValueError("no archive as torch.save writes it since 1.6, or not all of it")
    (listed,) = struct.unpack("<L", end[12:16])
    if locator[:4] == b"PK\6\7" and large[:4] == b"PK\6\6":
        (listed,) = struct.unpack("<Q", large[40:48])
    if listed > _MAX_LISTED_BYTES:
        raise ValueError(f"its list of files has {listed:,} bytes, more than {_MAX_LISTED_BYTES:,}")
    return num_bytes
