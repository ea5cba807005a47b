"""What a run was given to read: the part of run.json by which the data is proven, not only named."""

from typing import Annotated, Literal

from msgspec import Meta

from rules.records.codec import Amount, Count, Index, Int64, Record, Sha256


class FileStateRecord(Record, frozen=True, kw_only=True):
    """Which file it is, and when it was last written. No call sets ctime back, as utime does mtime."""

    device: Annotated[str, Meta(pattern="^[0-9a-f]{1,16}$")]
    inode: Annotated[str, Meta(pattern="^[0-9a-f]{1,16}$")]
    num_bytes: Count
    mtime_ns: Int64
    ctime_ns: Int64


class ReadFileRecord(Record, frozen=True, kw_only=True):
    """One file that the run had open."""

    name: str
    opened: FileStateRecord
    """When the run opened it."""
    hashed: FileStateRecord
    """After the run, when its bytes had been hashed."""
    sha256: Sha256
    """Of the whole file, or of its blocks."""


class ReadDatasetRecord(Record, frozen=True, kw_only=True):
    """The bytes that a run was given, hashed after run_stop through the files that it had open."""

    host: str
    ranks: Annotated[tuple[Index, ...], Meta(min_length=1)]
    """Those that had these files open; the first of them hashed them."""
    scope: Literal["whole", "blocks"]
    """Blocks at even distances, where the dataset is too large to be hashed whole."""
    hashed_bytes: Count
    duration_s: Amount
    """Of the hashing, which is not timed as part of the run."""
    sha256: Sha256
    """Over names and digests of the files: of a whole dataset of this harness its dataset_sha256."""
    files: Annotated[tuple[ReadFileRecord, ...], Meta(min_length=1)]
