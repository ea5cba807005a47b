"""Errors of this package. The command line turns them into exit codes in one place."""

from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path


class ConfigError(ValueError):
    """A model, data, train or runtime section is malformed or contradicts itself (exit code 2)."""


class DatasetError(ValueError):
    """A dataset is missing, incomplete, corrupt or not the one that was asked for (exit code 8)."""


class DeviceError(ValueError):
    """The device asked for is not there (exit code 2)."""


class WorldError(RuntimeError):
    """A rank did not come, or is lost (exit code 9)."""


class NotFiniteError(ArithmeticError):
    """Training produced a loss or a score that is not finite: the run cannot converge (exit code 4)."""


def did_you_mean(word: str, known: list[str]) -> str:
    """Return " Did you mean 'x'?" or the list of what is known."""
    close = get_close_matches(word, known, n=1)
    if close:
        return f" Did you mean {close[0]!r}?"
    return f" Known: {', '.join(sorted(known))}."


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Give errors of writing (disk full) the file's name, which calls on an open file leave out."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
