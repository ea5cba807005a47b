"""Write files so that a reader never meets half of one, and read them back; nothing is written through links."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from harness.foundation.errors import ExitCode, HarnessError
from reference_models.process.errors import naming
from reference_models.process.whole import create, sync_folder, write_whole
from reports.text.whole import drafted
from rules.records.codec import Damage, Record, decode, encode, read_object

R = TypeVar("R", bound=Record)
T = TypeVar("T")


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write JSON as `write_text` does."""
    write_text(path, json.dumps(content, indent=1, default=str) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text where a user named a file, by one rename, synced before it; no failure leaves a draft."""
    with drafted(path) as draft, naming(path), create(draft) as file:
        file.write(text.encode())
        file.flush()
        os.fsync(file.fileno())
    sync_folder(path.parent)


def write_record(path: Path, record: Record) -> None:
    """Write a record by one rename, synced to disk before it; one process at a time, which holds the folder's lock.

    Raises HarnessError (exit 8) where something else is in its place: a pipe's reader might never come, and a link in
    a stranger's folder may lead to what is the user's.
    """
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise HarnessError(f"{path} is no regular file, expected a record or nothing. Remove it.", ExitCode.INPUT)
    write_whole(path, encode(record))


def read_record(path: Path, record_type: type[R]) -> R:
    """Read a record from one of our own files; HarnessError (exit 8) when it is missing or damaged."""
    return _refuse_damage(decode(path, record_type))


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object from one of our own files; HarnessError (exit 8) when it is missing or damaged."""
    return _refuse_damage(read_object(path))


def _refuse_damage(found: T | Damage) -> T:
    if isinstance(found, Damage):
        raise HarnessError(f"{found}.", ExitCode.INPUT)
    return found
