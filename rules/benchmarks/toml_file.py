"""Read TOML files that anyone may have written: of bounded size and depth, and never a pipe or a device."""

import tomllib
from pathlib import Path
from typing import Any

from rules.errors import DefinitionError
from rules.logs.text import printable
from rules.open_file import NotRegularError, TooLargeError, read_regular

MAX_BYTES = 1 << 20
MAX_DEPTH = 100
MAX_BITS = 14_000
"""Maximum number of bits of a whole number in a TOML file; TOML promises 64. Python prints no more than 4,300
digits."""


def read_toml(path: Path) -> dict[str, Any]:
    """Read one TOML file of at most MAX_BYTES as tables. Raises DefinitionError that names the place where it is
    invalid. No pipe or device is opened."""
    return parse_toml(read_bytes(path), path)


def read_bytes(path: Path) -> bytes:
    """Read the bytes of a TOML file of at most MAX_BYTES. Raises DefinitionError where it is missing, unreadable, too
    large or no regular file."""
    try:
        return read_regular(path, MAX_BYTES)
    except FileNotFoundError:
        raise DefinitionError(f"{path}: no such file. Check its path.") from None
    except OSError as error:
        raise DefinitionError(f"{path}: cannot be read: {error.strerror}") from None
    except NotRegularError:
        raise DefinitionError(f"{path}: cannot be read: not a regular file") from None
    except TooLargeError as error:
        raise DefinitionError(f"{path}: {error}, expected a definition of at most {MAX_BYTES:,}") from None
    except ValueError as error:
        raise DefinitionError(f"{path}: not valid TOML: {printable(str(error))}") from None


def parse_toml(content: bytes, path: Path) -> dict[str, Any]:
    """Parse the bytes of a TOML file as tables; `path` is only named in messages. Raises DefinitionError."""
    try:
        tables = tomllib.loads(content.decode("utf-8-sig"))
        _refuse_odd(path, tables)
        return tables
    except RecursionError:
        raise DefinitionError(f"{path}: not valid TOML: nested deeper than {MAX_DEPTH} levels") from None
    except ValueError as error:
        if isinstance(error, DefinitionError):
            raise
        raise DefinitionError(f"{path}: not valid TOML: {printable(str(error))}") from None


def _refuse_odd(path: Path, tables: dict[str, Any]) -> None:
    """Raise DefinitionError where TOML tables are nested deeper than a reader's stack can hold, or a whole number is
    too long to print: a hexadecimal number may have as many digits as the file has bytes."""
    waiting: list[tuple[int, Any]] = [(0, tables)]
    while waiting:
        depth, value = waiting.pop()
        if isinstance(value, int) and value.bit_length() > MAX_BITS:
            raise DefinitionError(f"{path}: not valid TOML: a whole number of more than {MAX_BITS} bits")
        if isinstance(value, dict | list):
            if depth == MAX_DEPTH:
                raise DefinitionError(f"{path}: not valid TOML: nested deeper than {MAX_DEPTH} levels")
            waiting += [(depth + 1, inner) for inner in (value.values() if isinstance(value, dict) else value)]
