"""The chain of a set's runs: each record holds the digest of that of the run before, the first one its set's."""

import hashlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from rules.records.run_set import RunSetRecord

LAST_FILE = "last_run"
"""The file in extra/ that holds the link which the next run is given, so that the last run is held, too."""

_LINK = re.compile("[0-9a-f]{64}")
_MAX_BYTES = 1024


def digest_record(content: bytes) -> str:
    """Return the digest of a run.json, as the next one holds it."""
    return hashlib.sha256(content).hexdigest()


def first_link(record: RunSetRecord) -> str:
    """Return what the first run of a set holds in place of a digest: no two sets begin alike."""
    about = "\0".join((record.name, record.created_utc, str(record.base_seed), record.benchmark.definition_sha256))
    return hashlib.sha256(about.encode()).hexdigest()


def read_link(path: Path) -> str:
    """Return the link that the file of the last one holds; of what is no link, a digest, which no record has.

    Raises OSError.
    """
    with path.open("rb") as file:
        said = file.read(_MAX_BYTES).strip()
    text = said.decode("ascii", errors="replace")
    return text if _LINK.fullmatch(text) else digest_record(said)


def follow(link: str, next_of: Mapping[str, Iterable[str]]) -> str:
    """Return the last link from `link` on; `next_of` has, by link, the digests of the records that hold it."""
    seen = {link}
    while (found := next(iter(next_of.get(link, ())), None)) is not None and found not in seen:
        seen.add(found)
        link = found
    return link
