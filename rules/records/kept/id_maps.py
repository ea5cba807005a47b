"""<dataset>/id_maps/<key>/manifest.json describes the mapping of a dataset's categorical ids to the rows of smaller
embedding tables."""

import hashlib

from rules.records.codec import Amount, Count, Document, Sha256
from rules.records.kept.arrays import Arrays

ID_MAPS_FOLDER = "id_maps"
"""Name of the folder, within a dataset's folder, of the maps from categorical ids to rows of smaller embedding
tables."""


class IdMapManifest(Document, frozen=True, kw_only=True):
    """Map from categorical ids to rows of smaller embedding tables. For each table with fewer rows than ids there is
    an int32 array [ids, k] of row numbers; an id's embedding is the sum of its k rows.

    The manifest is in the folder of the arrays, and is written last, so that a folder without it is incomplete.
    """

    id_map_kind: str
    """Kind of the map from ids to rows, as in the benchmark's definition: hash, quotient_remainder, frequency,
    learned or classes."""
    budget: Amount
    """Number of rows of each smaller embedding table, as a share of the number of rows of the full table."""
    samples: Count
    """Number of samples read from the start of the training split to make the map from ids to rows."""
    dataset_sha256: Sha256 | None
    made_s: Amount
    """Measured seconds that making the map from ids to rows took, outside the timed part of every run."""
    tables: Arrays

    @property
    def sha256(self) -> str:
        """Return the digest of the names and digests of the map's arrays, which identifies the map however it was
        made."""
        lines = sorted(f"{name} {array.sha256}\n" for name, array in self.tables.items())
        return hashlib.sha256("".join(lines).encode()).hexdigest()
