"""Blocks of whole lines from plain or gzip text, in bounded memory, with the digest of what was read."""

import gzip
import hashlib
import io
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from reference_models.process.errors import DatasetError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

BLOCK_BYTES = 1 << 20
_MAX_LINE_BYTES = 1 << 20
_GZIP_MAGIC = b"\x1f\x8b"


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceFile:
    """A text file as it was read: size and sha256 of its bytes on disk, compressed or not."""

    path: Path
    num_bytes: int
    sha256: str


class TextSource:
    """One text file. Iterate over it once; then `source` is what was read. `on_bytes` gets bytes read from disk."""

    def __init__(self, path: Path, on_bytes: Callable[[int], None] | None = None) -> None:
        self.path = path
        self._raw = _CountingReader(_open(path), on_bytes)

    @contextmanager
    def opened(self) -> Iterator[io.BufferedIOBase]:
        """Give the text, uncompressed. Raises DatasetError with the file's name, also for what is done inside."""
        with self._raw, io.BufferedReader(self._raw, BLOCK_BYTES) as plain:
            is_gzip = plain.peek(2)[:2] == _GZIP_MAGIC
            try:
                yield gzip.GzipFile(fileobj=plain, mode="rb") if is_gzip else plain
            except (EOFError, zlib.error, gzip.BadGzipFile) as error:
                raise DatasetError(
                    f"{self.path}: the gzip file is cut short or damaged ({error}). Download it again."
                ) from None

    def __iter__(self) -> Iterator[bytes]:
        """Yield blocks of about BLOCK_BYTES, each ending in a line feed. Raises DatasetError with the file's name."""
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
    def source(self) -> SourceFile:
        return SourceFile(path=self.path, num_bytes=self._raw.num_bytes, sha256=self._raw.digest.hexdigest())


def _open(path: Path) -> io.FileIO:
    try:
        return path.open("rb", buffering=0)
    except FileNotFoundError:
        raise DatasetError(f"{path}: no such file. Give the paths of the text files after --train.") from None
    except OSError as error:
        raise DatasetError(f"{path}: cannot be read: {error.strerror}.") from None


class _CountingReader(io.RawIOBase):
    """Reads a file while hashing and counting its bytes. Opening may fail, so it is done before: io closes what it
    has begun to make."""

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
