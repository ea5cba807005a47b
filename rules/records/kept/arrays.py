"""What the manifest of a folder of arrays says of each: its type and shape, and the file of its own that it has."""

from typing import Annotated, Literal

from msgspec import Meta

from rules.records.codec import Count, PositiveCount, Record, Sha256

MANIFEST_FILE = "manifest.json"
"""In the folder; it was written last."""
ArrayName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)*$", max_length=200)]
"""Words with dots between them. The file is <name>.npy; it can lead to no other folder."""


class ArrayRecord(Record, frozen=True, kw_only=True):
    """One array, in a file of its own name."""

    dtype: Literal["float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "bool"]
    """The file's. What NumPy has no type for is widened: bfloat16 is kept as float32, which loses nothing."""
    shape: Annotated[tuple[PositiveCount, ...], Meta(max_length=8)]
    num_bytes: Count
    """The size of the whole file, its header included."""
    sha256: Sha256
    """The digest of the whole file."""


Arrays = Annotated[dict[ArrayName, ArrayRecord], Meta(min_length=1, max_length=100_000)]
