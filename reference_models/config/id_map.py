"""Section [id_map] of a benchmark definition, which maps a table's ids onto fewer embedding rows. Only sizes are
computed here, so that memory can be planned before the map is built."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

from reference_models.config.records import PositiveCount
from reference_models.process.errors import ConfigError

MOST_WHOLE = 200
"""Largest number of rows of a table that the id map does not shrink: each id of the table keeps a row of its own."""


@dataclass(frozen=True, kw_only=True, slots=True)
class IdMapConfig:
    """Section [id_map]: mapping of ids onto fewer embedding rows; the number of ids of each table is in [data]."""

    kind: Literal["none", "hash", "quotient_remainder", "frequency", "learned", "classes"] = "none"
    """Method that maps an id to embedding rows. `none`: ids are not mapped. `hash`: a multiplicative hash of the id
    is its row. `quotient_remainder`: the id is divided, and the row of the quotient is added to the row of the
    remainder. `frequency`: the most frequent ids have rows of their own, the others are hashed. `learned`: as
    `frequency`, but ids whose embeddings are alike share a row. `classes`: ids of a generated `click_log` share a row
    if the log was generated with the same latent class for them; this is only a control, since a dataset does not
    show latent classes. `none`, `hash` and `quotient_remainder` work with every command. `frequency` and `learned`
    work only with --quality, serving and traces. `classes` works only with --quality."""
    budget: Annotated[float, Meta(gt=0, le=1)] = 0.1
    """Share of a table's rows that remain after the id map; their number is rounded down. Tables of 200 rows or fewer
    keep all rows."""
    samples: PositiveCount = 1 << 17
    """Number of samples, from the start of the training split, whose ids `frequency` counts and `learned` learns
    from; all samples of a smaller split."""

    @property
    def is_active(self) -> bool:
        """Return whether the id map may leave tables fewer rows than ids."""
        return self.kind != "none" and self.budget < 1

    @property
    def looks_at_data(self) -> bool:
        """Return whether building the id map needs data: the training split, or the generator that made it."""
        return self.is_active and self.kind not in ("hash", "quotient_remainder")

    def shapes(self, num_embeddings: Sequence[int]) -> tuple[tuple[int, int], ...]:
        """Return two numbers for each table under the id map: the rows that the table has, and the rows whose sum is
        the embedding of an id.

        `num_embeddings` has the number of ids of each table. Raises ConfigError if `budget`, the share of rows that
        the map keeps, leaves a table too few rows.
        """
        width = 2 if self.kind == "quotient_remainder" else 1
        found = []
        for table, num_ids in enumerate(num_embeddings):
            is_whole = not self.is_active or num_ids <= MOST_WHOLE
            found.append((num_ids, 1) if is_whole else (int(self.budget * num_ids), width))
            if found[-1][0] < found[-1][1]:
                raise ConfigError(
                    f"id_map.budget is {self.budget:g}, which leaves {found[-1][0]} of the {num_ids} rows of table "
                    f"{table}, expected at least {width}. Give a larger one."
                )
        return tuple(found)
