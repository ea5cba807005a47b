"""[id_map] of a definition: how the ids of a table share fewer rows. Sizes alone, so that planning needs no map."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from msgspec import Meta

from reference_models.config.records import PositiveCount, read_section
from reference_models.process.errors import ConfigError

MOST_WHOLE = 200
"""Tables of so many rows or fewer keep a row for each id."""
USUAL_SAMPLES = 1 << 17


@dataclass(frozen=True, kw_only=True, slots=True)
class IdMapConfig:
    """[id_map]: how ids share the rows of embedding tables, whose own numbers of rows [data] has."""

    kind: Literal["none", "hash", "quotient_remainder", "frequency", "learned", "classes"] = "none"
    """`hash`: a multiplicative hash. `quotient_remainder`: the sum of a row for the quotient and one for the
    remainder of a division. `frequency`: the hottest ids have rows of their own, the others are hashed. `learned`: as
    `frequency`, but ids whose embeddings are alike share a row. `classes`: the latent classes of a `click_log`, a
    control. The last three are for --quality, the first two of those for serving and traces, too."""
    budget: Annotated[float, Meta(gt=0, le=1)] = 0.1
    """Share of a table's rows that are left, rounded down; tables of 200 rows or fewer stay whole."""
    samples: PositiveCount = USUAL_SAMPLES
    """Samples from the start of the training split that `frequency` counts and `learned` learns from; all of them
    where it holds fewer."""

    @property
    def is_active(self) -> bool:
        """Return whether any table may have fewer rows than ids."""
        return self.kind != "none" and self.budget < 1

    @property
    def looks_at_data(self) -> bool:
        """Return whether making the map reads the training split, or what made it."""
        return self.is_active and self.kind not in ("hash", "quotient_remainder")

    def is_whole(self, num_ids: int) -> bool:
        """Return whether each id of a table of so many has a row of its own."""
        return not self.is_active or num_ids <= MOST_WHOLE

    def shapes(self, num_embeddings: Sequence[int]) -> tuple[tuple[int, int], ...]:
        """Return rows of each table, and rows per id, of tables of so many ids. Raises ConfigError for too few."""
        per_id = 2 if self.kind == "quotient_remainder" else 1
        found = []
        for place, num_ids in enumerate(num_embeddings):
            rows, width = (num_ids, 1) if self.is_whole(num_ids) else (int(self.budget * num_ids), per_id)
            if rows < width:
                raise ConfigError(
                    f"id_map.budget is {self.budget:g}, which leaves {rows} of the {num_ids} rows of table {place}, "
                    f"expected at least {width}. Give a larger one."
                )
            found.append((rows, width))
        return tuple(found)


def parse_id_map(table: Mapping[str, Any]) -> IdMapConfig:
    """Read [id_map]. Raises ConfigError naming the field."""
    return read_section("id_map", table, IdMapConfig)
