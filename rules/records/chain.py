"""The chain of a set's runs: each record holds the digest of that of the run before, the first one its set's."""

import hashlib
from collections.abc import Iterable, Mapping

from rules.records.run_set import RunSetRecord

LAST_FILE = "last_run"
"""The file in extra/ that holds the link which the next run is given, so that the last run is held, too."""


def digest_record(content: bytes) -> str:
    """Return the digest of a run.json, as the next one holds it."""
    return hashlib.sha256(content).hexdigest()


def first_link(record: RunSetRecord) -> str:
    """Return what the first run of a set holds in place of a digest: no two sets begin alike."""
    about = "\0".join((record.name, record.created_utc, str(record.base_seed), record.benchmark.definition_sha256))
    return hashlib.sha256(about.encode()).hexdigest()


def follow(link: str, next_of: Mapping[str, Iterable[str]]) -> str:
    """Return the last link from `link` on; `next_of` has, by link, the digests of the records that hold it."""
    seen = {link}
    while (found := next(iter(next_of.get(link, ())), None)) is not None and found not in seen:
        seen.add(found)
        link = found
    return link
