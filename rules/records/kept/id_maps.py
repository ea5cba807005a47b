"""<dataset>/id_maps/<key>/manifest.json: the mapping of a dataset's ids to the rows of smaller tables."""

import hashlib

from rules.records.codec import Amount, Count, Document, Sha256
from rules.records.kept.arrays import Arrays

ID_MAPS_FOLDER = "id_maps"
"""Name of the folder of id maps, in the dataset's folder."""


class IdMapManifest(Document, frozen=True, kw_only=True):
    """A map of ids to rows: an array int32 [ids, k] for each table with fewer rows than ids.

    The manifest is in the folder of the arrays, and is written last.
    """

    id_map_kind: str
    """Kind of map as in the definition: hash, quotient_remainder, frequency, learned or classes."""
    budget: Amount
    """Share of rows that remains in each of the smaller tables."""
    samples: Count
    """Samples read from the start of the training split to make the map."""
    dataset_sha256: Sha256 | None
    made_s: Amount
    """Measured seconds that making the map took, outside the timed part of every run."""
    tables: Arrays

    @property
    def sha256(self) -> str:
        """Return the digest of the map itself, however it was made: of the names and digests of its arrays."""
        lines = sorted(f"{name} {array.sha256}\n" for name, array in self.tables.items())
        return hashlib.sha256("".join(lines).encode()).hexdigest()
