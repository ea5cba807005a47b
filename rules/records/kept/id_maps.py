"""<dataset>/id_maps/<key>/manifest.json: the rows of smaller tables that the ids of a dataset stand for."""

import hashlib

from rules.records.codec import Amount, Count, Document, Sha256
from rules.records.kept.arrays import Arrays

ID_MAPS_FOLDER = "id_maps"
"""The folder's name, beside the data."""


class IdMapManifest(Document, frozen=True, kw_only=True):
    """A map of ids to rows: an array int32 [ids, k] for each table with fewer rows than ids.

    It is in the same folder as those, and was written last.
    """

    id_map_kind: str
    """As the definition says it: hash, quotient_remainder, frequency, learned or classes."""
    budget: Amount
    """The share of rows that is left of each of those tables."""
    samples: Count
    """Read from the start of the training split to make it."""
    dataset_sha256: Sha256 | None
    made_s: Amount
    """Measured: what making it took, off the clock of every run."""
    tables: Arrays

    @property
    def sha256(self) -> str:
        """Return the digest of the map itself, whatever made it: of the names and digests of its arrays."""
        lines = sorted(f"{name} {array.sha256}\n" for name, array in self.tables.items())
        return hashlib.sha256("".join(lines).encode()).hexdigest()
