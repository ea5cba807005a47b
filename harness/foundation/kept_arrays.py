"""Keep arrays in folders for later use: weights, traces of embedding lookups, id maps, checkpoints. Each folder has a
manifest that lists its arrays; each of these uses has its own type of manifest."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from numpy.typing import NDArray

from harness.foundation.errors import ExitCode, HarnessError
from reference_models.process.artifact import WrittenArray, check_artifact, read_arrays, write_artifact
from reference_models.process.errors import ArtifactError
from rules.records.codec import Record, encode
from rules.records.kept.arrays import ArrayRecord


def write_kept(
    folder: Path,
    arrays: Mapping[str, NDArray[Any]],
    manifest: type[Record],
    about: Mapping[str, Any],
    member: str,
    write_more: Callable[[Path], object] = lambda draft: None,
) -> Mapping[str, WrittenArray]:
    """Write arrays and a manifest to `folder`, completely or not at all; return a dict from array to the description
    of what was written. An existing folder is replaced.

    `manifest` is the type of the manifest. `about` has all fields of the manifest except one, which lists the written
    arrays and is named by `member`. `write_more` may write further files to the folder before it is put in place.
    Raises ConfigError if a name or a type cannot be stored, msgspec.ValidationError if `about` does not fit the
    manifest's type, and OSError.
    """

    def describe(written: Mapping[str, WrittenArray]) -> str:
        return encode(msgspec.convert({**about, member: written}, manifest, from_attributes=True))

    return write_artifact(folder, arrays, describe, write_more)


def read_kept(
    folder: Path, arrays: Mapping[str, ArrayRecord], *, available_bytes: int, remedy: str
) -> dict[str, NDArray[Any]]:
    """Return the arrays in `folder`, with every byte verified. `arrays` are their descriptions in the folder's
    manifest.

    Raises HarnessError with exit 8 if a file is damaged or contradicts the manifest; the message ends with the advice
    `remedy`. Raises it with exit 9 if the arrays need more than `available_bytes` of memory.
    """
    num_bytes = sum(array.num_bytes for array in arrays.values())
    try:
        check_artifact(folder, arrays)
        if num_bytes > available_bytes:
            raise HarnessError(
                f"{folder}: {num_bytes:,} bytes of arrays, {available_bytes:,} bytes of memory are free.",
                ExitCode.RESOURCES,
            )
        return read_arrays(folder, arrays)
    except ArtifactError as error:
        raise HarnessError(f"{error} {remedy}", ExitCode.INPUT) from None
