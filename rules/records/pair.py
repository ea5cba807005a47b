"""pair.json: two configurations measured in turns; each is an ordinary run set in a folder beside this file."""

from typing import Annotated, Final

from msgspec import Meta

from rules.records.codec import Document, PositiveCount
from rules.records.run_set import Kind, Options

BASE: Final = "base"
NEW: Final = "new"
SIDES: Final = (BASE, NEW)
"""The folders of a pair's sets, in the order of the first round."""


class PairRecord(Document, frozen=True, kw_only=True):
    """Two sets that were made in turns with shared seeds: run k of both, one after the other, before run k + 1."""

    name: str
    created_utc: str
    harness_version: str
    command: str
    kind: Kind
    options: Options
    num_runs: PositiveCount
    base_seed: Annotated[int, Meta(ge=0, description="Both sets derive the seed of run i from it.")]
    source: str
    """The set whose configuration the base has."""
    python: str | None
    """The interpreter that ran the base; None where it was the one that made the pair. Nobody runs it for this."""
