"""Link the runs of a result set in a chain, which reveals a removed run: each run's record (run.json) holds the
digest of the previous run's record; the first run's record holds a digest made from the set's record
(run_set.json)."""

import hashlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from rules.records.run_set import RunSetRecord

LAST_FILE = "last_run"
"""Name of the file in extra/ that holds the digest of the last run's run.json, so that removing the last run is
noticed as well."""

_LINK = re.compile("[0-9a-f]{64}")
_MAX_BYTES = 1024


def digest_record(content: bytes) -> str:
    """Return the SHA-256 of a run.json's bytes, which the record of the next run of the set holds."""
    return hashlib.sha256(content).hexdigest()


def first_link(record: RunSetRecord) -> str:
    """Return the digest that the first run's record holds, since there is no previous run. It is made from the set's
    record, so it is different for every set."""
    about = "\0".join((record.name, record.created_utc, str(record.base_seed), record.benchmark.definition_sha256))
    return hashlib.sha256(about.encode()).hexdigest()


def read_link(path: Path) -> str:
    """Return the digest that the text file `path` holds, such as extra/last_run of a result set. For a file that
    holds no digest, return the digest of the file's bytes, which matches no run's record.

    Raises OSError.
    """
    with path.open("rb") as file:
        said = file.read(_MAX_BYTES).strip()
    text = said.decode("ascii", errors="replace")
    return text if _LINK.fullmatch(text) else digest_record(said)


def follow(link: str, next_of: Mapping[str, Iterable[str]]) -> str:
    """Return the digest of the last record in a chain that starts at the digest `link`. `next_of` maps a record's
    digest to the digests of the records that name it as their predecessor. Of several, the first is followed."""
    seen = {link}
    while (found := next(iter(next_of.get(link, ())), None)) is not None and found not in seen:
        seen.add(found)
        link = found
    return link
