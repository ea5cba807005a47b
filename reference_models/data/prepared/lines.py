"""Read text, plain or compressed, in blocks of complete lines and bounded memory, and compute the file's sha256.

Compression is detected from the first bytes: gzip, bzip2, xz, and zip archives of one file.
"""

import gzip
import hashlib
import io
import lzma
import shlex
import zipfile
import zlib
from bz2 import BZ2Decompressor
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from reference_models.data.store.manifest import compute_file_sha256
from reference_models.process.errors import DatasetError
from reference_models.process.open_file import refuse_pointer

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

BLOCK_BYTES = 1 << 20
_MAX_LINE_BYTES = 1 << 20
_XZ_MEMORY_BYTES = 128 << 20
"""Limit in bytes of the memory that decoding an xz file may take: the file states how much, up to 4 GB; `xz -9` needs
65 MiB."""
_GZIP_MAGIC, _BZIP2_MAGIC, _XZ_MAGIC, _ZIP_MAGIC = b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00", b"PK\x03\x04"
_UNREAD = {
    b"\x28\xb5\x2f\xfd": ("zstd", "zstd -d {}"),
    b"\x04\x22\x4d\x18": ("lz4", "lz4 -d {}"),
    b"\x1f\x9d": ("compress", "uncompress {}"),
    b"7z\xbc\xaf\x27\x1c": ("7z", "7z x {}"),
    b"Rar!": ("rar", "unrar x {}"),
}
"""Compressed formats that are not read: a file's first bytes, the format's name, and the command that unpacks the
file."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceFile:
    """Text or Parquet file that was read: its size and the sha256 of its bytes on disk, compressed or not."""

    path: Path
    num_bytes: int
    sha256: str


class _DamagedError(Exception):
    """Error of a damaged compressed stream, with the decompressor's message."""


_DAMAGE = (EOFError, zlib.error, gzip.BadGzipFile, lzma.LZMAError, zipfile.BadZipFile, _DamagedError)


class TextSource:
    """Text file, plain or compressed. Its blocks of lines are read once, by iteration; after that `source` has the
    file's size and sha256.

    `on_bytes` gets the number of bytes just read from disk.
    """

    def __init__(self, path: Path, on_bytes: Callable[[int], None] | None = None) -> None:
        self.path = path
        self._on_bytes = on_bytes
        self._raw = _CountingReader(_open(path), on_bytes)
        self._is_archive = False

    @contextmanager
    def opened(self) -> Iterator[IO[bytes]]:
        """Yield a stream of the file's uncompressed text. Raises DatasetError, naming the file, if it cannot be
        opened or if reading from the stream fails."""
        with self._raw, io.BufferedReader(self._raw, BLOCK_BYTES) as plain:
            begin = plain.peek(64)[:64]
            refuse_pointer(self.path, begin)
            for magic, (form, command) in _UNREAD.items():
                if begin.startswith(magic):
                    raise DatasetError(
                        f"{self.path}: is compressed with {form}, which is not read. Unpack it first: "
                        f"{command.format(shlex.quote(str(self.path)))}"
                    )
            try:
                if begin.startswith(_ZIP_MAGIC):
                    self._is_archive = True
                    with _open_member(self.path) as text:
                        yield text
                elif begin.startswith(_GZIP_MAGIC):
                    yield cast("IO[bytes]", gzip.GzipFile(fileobj=plain, mode="rb"))
                elif begin.startswith(_BZIP2_MAGIC):
                    yield io.BufferedReader(_DecompressedFile(plain, BZ2Decompressor), BLOCK_BYTES)
                elif begin.startswith(_XZ_MAGIC):
                    yield io.BufferedReader(_DecompressedFile(plain, _begin_xz), BLOCK_BYTES)
                else:
                    yield plain
            except _DAMAGE as error:
                form = "gzip" if begin.startswith(_GZIP_MAGIC) else "compressed"
                raise DatasetError(
                    f"{self.path}: the {form} file is cut short or damaged ({error}). Download it again."
                ) from None

    def __iter__(self) -> Iterator[bytes]:
        """Yield the text in blocks of about BLOCK_BYTES, of whole lines. Raises DatasetError with the file's name."""
        any_text = False
        with self.opened() as text:
            while block := text.read(BLOCK_BYTES):
                any_text = True
                if not block.endswith(b"\n"):
                    end = text.readline(_MAX_LINE_BYTES)
                    if len(end) == _MAX_LINE_BYTES:
                        raise DatasetError(
                            f"{self.path}: no line ends within {len(end)} bytes. It is no text file of Criteo's "
                            "form: give the .txt, day_<k> or .gz file itself."
                        )
                    block += end if end.endswith(b"\n") else end + b"\n"
                yield block
        if not any_text:
            raise DatasetError(f"{self.path}: is empty. Give a file with one sample per line.")

    @property
    def num_read_bytes(self) -> int:
        """Number of bytes of the text file read from disk so far; for a zip archive, the size of the archive."""
        return self.path.stat().st_size if self._is_archive else self._raw.num_bytes

    @property
    def source(self) -> SourceFile:
        if self._is_archive:  # an archive's end is read before its beginning
            sha256 = compute_file_sha256(self.path, self._on_bytes)
            return SourceFile(path=self.path, num_bytes=self.path.stat().st_size, sha256=sha256)
        return SourceFile(path=self.path, num_bytes=self._raw.num_bytes, sha256=self._raw.digest.hexdigest())


def _open(path: Path) -> io.FileIO:
    try:
        return path.open("rb", buffering=0)
    except FileNotFoundError:
        raise DatasetError(f"{path}: no such file. Check its path.") from None
    except OSError as error:
        raise DatasetError(f"{path}: cannot be read: {error.strerror}.") from None


def _is_of_macos(name: str) -> bool:
    """Return whether a file in a zip archive is metadata that macOS adds to archives."""
    return name.startswith("__MACOSX/")


@contextmanager
def _open_member(path: Path) -> Iterator[IO[bytes]]:
    """Open the only file of a zip archive. Raises DatasetError for another number of files, or an encrypted one."""
    with zipfile.ZipFile(path) as archive:
        members = [entry for entry in archive.infolist() if not (entry.is_dir() or _is_of_macos(entry.filename))]
        if len(members) != 1:
            names = ", ".join(ascii(member.filename)[:40] for member in members[:3])
            if any(member.filename.startswith("xl/") for member in members):
                raise DatasetError(
                    f"{path}: is an Excel workbook, expected CSV, JSON lines or Parquet. Save its sheet "
                    "as CSV (UTF-8)."
                )
            raise DatasetError(
                f"{path}: a zip archive of {len(members)} files ({names}, …), expected one. Unpack it first, with "
                f"unzip {shlex.quote(str(path))}, and give the file."
            )
        try:
            with archive.open(members[0]) as text:
                yield text
        except (RuntimeError, NotImplementedError) as error:
            raise DatasetError(f"{path}: the zip archive cannot be read ({error}). Unpack it first.") from None


def _begin_xz() -> lzma.LZMADecompressor:
    return lzma.LZMADecompressor(memlimit=_XZ_MEMORY_BYTES)


class _DecompressedFile(io.RawIOBase):
    """Reader that decompresses concatenated bzip2 or xz streams in bounded memory."""

    def __init__(self, file: IO[bytes], begin: "Callable[[], BZ2Decompressor | lzma.LZMADecompressor]") -> None:
        self._file, self._begin = file, begin
        self._stream = begin()
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        view = memoryview(buffer)
        while True:
            if self._stream.eof:
                self._rest = self._stream.unused_data or self._file.read(BLOCK_BYTES)
                if not self._rest.strip(b"\0"):  # padding after the last stream
                    return 0
                self._stream = self._begin()
            elif self._stream.needs_input:
                self._rest = self._file.read(BLOCK_BYTES)
                if not self._rest:
                    raise EOFError("it ends before the end of the stream")
            try:
                piece = self._stream.decompress(self._rest, len(view))
            except OSError as error:
                raise _DamagedError(str(error)) from None
            self._rest = b""
            if piece:
                view[: len(piece)] = piece
                return len(piece)


class _CountingReader(io.RawIOBase):
    """Reader of an open file that counts its bytes and computes their sha256.

    The constructor takes a file that is open already: if opening failed in the constructor, io would still call
    `close`, for a reader without a file.
    """

    def __init__(self, file: io.FileIO, on_bytes: Callable[[int], None] | None) -> None:
        self._file = file
        self._on_bytes = on_bytes
        self.num_bytes = 0
        self.digest = hashlib.sha256()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        count = self._file.readinto(buffer) or 0
        self.digest.update(memoryview(buffer)[:count])
        self.num_bytes += count
        if self._on_bytes is not None and count:
            self._on_bytes(count)
        return count

    def close(self) -> None:
        self._file.close()
        super().close()
