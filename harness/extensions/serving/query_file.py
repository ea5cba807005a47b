"""Read a file of queries: the number of items of each query, and optionally the time in seconds at which it came."""

import hashlib
import math
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from harness.foundation.errors import ExitCode, HarnessError
from reference_models.process.errors import DatasetError
from reference_models.process.open_file import read_regular

PREFIX = "file:"
MAX_BYTES = 16 << 20
"""Maximum bytes of a file of queries."""
MAX_QUERIES = 200_000
"""Maximum number of queries in a file."""
MAX_ITEMS = 1024
"""Maximum number of items (candidates to rank) in one query, as in DeepRecSys."""
_NUMBER = re.compile(r"(?a:\d{1,12}(?:\.\d{1,12})?(?:[eE][+-]?\d{1,2})?)")


@dataclass(frozen=True, kw_only=True, slots=True)
class QueryFile:
    """Numbers of items (candidates to rank) and arrival times of the queries in a file of queries, in the file's
    order."""

    items: tuple[int, ...]
    arrivals_s: tuple[float, ...] | None
    """Arrival time of each query in seconds, never falling; None where the file has only numbers of items."""
    sha256: str

    @property
    def label(self) -> str:
        """Return the name of the queries in results, made of the file's digest: equal files have equal names."""
        return f"{PREFIX}{self.sha256[:12]}"


def read_query_file(path: Path) -> QueryFile:
    """Read a file of queries. Either every line is `ITEMS`, or every line is `SECONDS,ITEMS`. Empty lines and lines
    that begin with # are skipped.

    Raises HarnessError (exit 2) if the file cannot be read. Raises HarnessError (exit 8) if it is missing, a link, no
    regular file, or larger than MAX_BYTES, or if a line is wrong; the message quotes the line.
    """
    try:
        return _parse(path, read_regular(path, MAX_BYTES))
    except FileNotFoundError:
        raise HarnessError(f"{path}: no such file. Name a file of queries, one a line.", ExitCode.INPUT) from None
    except OSError as error:
        raise HarnessError(f"serve.queries: {path}: {error.strerror or error}. Name a file of queries.") from None
    except DatasetError as error:
        raise HarnessError(f"serve.queries: {error} Name a file of queries, one a line.", ExitCode.INPUT) from None


@lru_cache(maxsize=2)
def _parse(path: Path, content: bytes) -> QueryFile:
    items: list[int] = []
    arrivals_s: list[float] = []
    for number, line in enumerate(content.decode("utf-8", errors="replace").splitlines(), 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        *moment, count = (cell.strip() for cell in text.split(","))
        place = f"{path}:{number}: {text[:40]!r}"
        if not re.fullmatch(r"(?a:\d{1,6})", count) or not 1 <= int(count) <= MAX_ITEMS:
            raise _refuse(place, f"a query of 1 to {MAX_ITEMS} items, written as ITEMS or SECONDS,ITEMS")
        if len(moment) > 1 or (items and bool(moment) != bool(arrivals_s)):
            raise _refuse(place, "ITEMS in every line, or SECONDS,ITEMS in every line")
        if moment:
            if not _NUMBER.fullmatch(moment[0]) or not math.isfinite(arrival_s := float(moment[0])):
                raise _refuse(place, "the time of the query in seconds, 0 or more")
            if arrivals_s and arrival_s < arrivals_s[-1]:
                raise _refuse(place, f"times in ascending order, at least {arrivals_s[-1]:g}")
            arrivals_s.append(arrival_s)
        items.append(int(count))
        if len(items) > MAX_QUERIES:
            raise _refuse(place, f"at most {MAX_QUERIES:,} queries")
    if not items:
        raise HarnessError(f"{path}: has no query, expected one a line.", ExitCode.INPUT)
    if arrivals_s and arrivals_s[-1] <= arrivals_s[0]:
        raise HarnessError(f"{path}: all queries come at once, expected times that differ.", ExitCode.INPUT)
    return QueryFile(
        items=tuple(items), arrivals_s=tuple(arrivals_s) or None, sha256=hashlib.sha256(content).hexdigest()
    )


def _refuse(place: str, expected: str) -> HarnessError:
    return HarnessError(f"{place}, expected {expected}.", ExitCode.INPUT)
