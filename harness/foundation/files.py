"""Write files so that a reader never sees a half-written one, and read them back.

Only `write_text`, for files that a user named, follows links.
"""

import errno
import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from harness.foundation.errors import ExitCode, HarnessError
from reference_models.process.atomic_write import write_atomically
from reference_models.process.errors import naming
from reports.text.atomic_write import draft_file, write_new
from rules.records.codec import Damage, Record, decode, encode, read_object

R = TypeVar("R", bound=Record)
T = TypeVar("T")


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write JSON atomically to a file that dlrmbench owns."""
    write_atomically(path, json.dumps(content, indent=1, default=str) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text to a file that a user named, synced and then renamed; a failure leaves no draft file
    behind."""
    with draft_file(path) as draft, naming(path):
        write_new(draft, text)


def write_record(path: Path, record: Record) -> None:
    """Write a record to its JSON file: to a draft file, which is synced and then renamed. The caller must hold the
    folder's lock.

    Raises HarnessError (exit 8) if the path exists and is no regular file. Opening a pipe could block, and a link in
    a folder from a stranger could lead to a file of the user's.
    """
    refuse_irregular(path, "a record")
    write_atomically(path, encode(record))


def refuse_irregular(path: Path, what: str) -> None:
    """Raise HarnessError (exit 8) where a link, a pipe or a folder is in the place of `what`, a file that dlrmbench
    owns."""
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise HarnessError(f"{path} is no regular file, expected {what} or nothing. Remove it.", ExitCode.INPUT)


def open_regular(path: Path, flags: int, what: str) -> int:
    """Open a file in a folder that a stranger may have made; return its descriptor. No link is followed, and opening
    a pipe does not wait.

    Raises HarnessError (exit 8) if the path is no regular file. Raises it also if the file is to be written and has a
    second hard link, since the second name may be that of a file of the user's. Raises OSError if the file cannot be
    opened.
    """
    refuse_irregular(path, what)
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    found, problem = os.fstat(descriptor), ""
    if not stat.S_ISREG(found.st_mode):  # it was replaced since the check
        problem = f"is no regular file, expected {what}. Remove it."
    elif flags & (os.O_WRONLY | os.O_RDWR) and found.st_nlink > 1:
        problem = f"is a hard link: what is written there changes another file. Put a copy in its place ({what})."
    if problem:
        os.close(descriptor)
        raise HarnessError(f"{path} {problem}", ExitCode.INPUT)
    return descriptor


def refuse_links(folder: Path) -> None:
    """Raise HarnessError (exit 8) if `folder`, which has one or several run sets, contains a link that a later write
    would follow.

    `folder` itself may be a link, since its user named it. A file that is not written, such as a page or notes, may
    be a link, too.
    """
    for place, folders, files in os.walk(folder):
        is_written = not {"extra", "results", "systems"}.isdisjoint(Path(place).relative_to(folder).parts)
        for name in (*folders, *(files if is_written else ())):
            if (path := Path(place, name)).is_symlink():
                raise HarnessError(
                    f"{path} is a link, expected the set's own file or folder: writing would change files "
                    "elsewhere. Remove the link, or replace it by its target.",
                    ExitCode.INPUT,
                )


def open_lock(path: Path) -> int:
    """Open a lock file, creating it if needed; return its descriptor. Raises HarnessError (exit 8) for a link in its
    place."""
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    except OSError as error:
        if error.errno != errno.ELOOP or not path.is_symlink():
            raise
        words = f"{path} is a link, expected a lock's file or nothing. Remove it."
        raise HarnessError(words, ExitCode.INPUT) from None


def resolve_program_path(program: str | Path | None) -> Path | None:
    """Return a program's path, read as a shell reads it: a plain name is searched for in PATH, and ./NAME is a file
    in the current folder.

    ./NAME is returned as a full path, since a Path drops the "./" and NAME would then be searched for in PATH.
    """
    if program is None:
        return None
    return Path.cwd() / program if os.sep in str(program) else Path(program)


def read_record(path: Path, record_type: type[R]) -> R:
    """Return a record from a JSON file that dlrmbench wrote; HarnessError (exit 8) when it is missing or damaged."""
    return refuse_damage(decode(path, record_type))


def read_json(path: Path) -> dict[str, Any]:
    """Return a JSON object from a file that dlrmbench wrote; HarnessError (exit 8) when it is missing or damaged."""
    return refuse_damage(read_object(path))


def refuse_damage(found: T | Damage) -> T:
    """Return `found`, which was read from a file: a record or a JSON object. Raises HarnessError (exit 8) if `found`
    says instead that the file was missing or damaged."""
    if isinstance(found, Damage):
        raise HarnessError(f"{found}.", ExitCode.INPUT)
    return found
