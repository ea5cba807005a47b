"""The [data] section of synthetic data: any number of tables, rows and lookups, written by hand or by a sweep."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from msgspec import Meta

from reference_models.config.records import Amount, Count, Counts, PositiveCount, read_section, refuse
from reference_models.config.sections import NUM_CRITEO_DENSE, DataConfig
from reference_models.process.errors import ConfigError

SYNTHETIC_KINDS = ("made_up", "synthetic")
"""How files name the kind. The first spelling is what digests and records hold; the second reads as the first."""
ZIPF_EXPONENT = 1.05
"""Zipf exponent of the ids unless the section says otherwise; 0 draws them uniformly."""
SHAPE_KEYS = ("num_tables", "rows_per_table", "lookups_per_table", "row_scale", "zipf_exponent", "labels")
"""What only synthetic data has, beside num_embeddings, multi_hot and num_dense of every kind."""
_POOL_BYTES = 1 << 30
_MAX_ROWS = 1 << 40


@dataclass(frozen=True, kw_only=True)
class SyntheticSection:
    """[data] held in memory: tables come from num_embeddings and multi_hot, or all alike from the other keys."""

    kind: Literal["made_up", "synthetic"]
    """Data for throughput alone, unless `labels` says otherwise. Both names are one kind."""
    name: str = SYNTHETIC_KINDS[0]
    """The dataset's name."""
    num_dense: PositiveCount = NUM_CRITEO_DENSE
    """Numbers per sample."""
    num_embeddings: Counts | None = None
    """Rows of each table."""
    multi_hot: Counts | None = None
    """Ids per sample of each table; one where it is left out."""
    train_samples: PositiveCount | None = None
    """Samples held in memory; as many as the steps need where it is left out."""
    eval_samples: PositiveCount | None = None
    """Samples of an evaluation; as many as to train where it is left out."""
    seed: Count = 0
    """Seed of the generator."""
    num_tables: PositiveCount | None = None
    """Tables; the numbers given repeat in their order."""
    rows_per_table: PositiveCount | None = None
    """Rows of every table, instead of num_embeddings."""
    lookups_per_table: PositiveCount | None = None
    """Ids per sample of every table, instead of multi_hot."""
    row_scale: Amount = 1.0
    """Factor on the rows of every table."""
    zipf_exponent: Annotated[float, Meta(ge=0, le=8)] = ZIPF_EXPONENT
    """How unequal ids are: chances fall as rank to minus this; 0 is uniform."""
    labels: Literal["coin_flips", "planted"] = "coin_flips"
    """What a label says: nothing; or `planted`, what a hidden logistic model of numbers and ids says, so that what
    `serve` trains has a quality."""


def has_signal(data: DataConfig) -> bool:
    """Return whether there is something to learn in the labels."""
    return data.kind not in SYNTHETIC_KINDS or data.parameters.get("labels") == "planted"


def parse_synthetic(table: Mapping[str, Any]) -> DataConfig:
    """Read typed [data] of synthetic data. Raises ConfigError naming the key.

    Tables come from `num_embeddings` and `multi_hot`, repeated in their order up to `num_tables`;
    `rows_per_table` and `lookups_per_table` give all tables the same; `row_scale` multiplies rows.
    """
    section = read_section("data", table, SyntheticSection)
    rows, hots, num_tables = section.num_embeddings, section.multi_hot, section.num_tables
    if rows is None and section.rows_per_table is None:
        raise ConfigError("data.num_embeddings is missing: synthetic data needs it, or data.rows_per_table.")
    if num_tables is None:
        lengths = {len(values) for values in (rows, hots) if values is not None}
        if len(lengths) != 1:
            expected = f"{len(rows)} numbers, one per table" if rows and hots else "given, or data.num_tables"
            raise refuse("data", table, "multi_hot", expected)
        num_tables = lengths.pop()
    if section.rows_per_table is not None:
        rows = (section.rows_per_table,)
    if section.lookups_per_table is not None or hots is None:
        hots = (section.lookups_per_table or 1,)
    scale, planted = section.row_scale, section.labels == "planted"
    if scale == 0 or max(rows or ()) * scale > _MAX_ROWS:
        raise refuse("data", table, "row_scale", f"a factor above 0 that leaves every table at most {_MAX_ROWS} rows")
    return DataConfig(
        kind=SYNTHETIC_KINDS[0],
        name=section.name,
        train_samples=section.train_samples,
        eval_samples=section.eval_samples,
        num_dense=section.num_dense,
        num_embeddings=tuple(max(1, round(num * scale)) for num in _repeat(rows or (), num_tables)),
        multi_hot=_repeat(hots, num_tables),
        seed=section.seed,
        sha256=None,
        # Coin flips have no name of their own here: records of before there was a choice mean them.
        parameters={"zipf_exponent": section.zipf_exponent} | ({"labels": "planted"} if planted else {}),
    )


def bytes_per_sample(data: DataConfig) -> int:
    """Count the bytes of one sample in memory: float32 dense features, int64 ids, float32 label."""
    return 4 * data.num_dense + 8 * data.num_lookups + 4


def fitting_samples(data: DataConfig, global_batch_size: int, num_batches: int) -> int:
    """Count the samples to hold: `num_batches` as far as 1 GiB holds whole batches, at least one.

    As many as there will be steps, so that no batch comes twice and finds its rows in the caches.
    """
    fitting = _POOL_BYTES // (global_batch_size * bytes_per_sample(data))
    return global_batch_size * max(1, min(num_batches, fitting))


def _repeat(values: Sequence[int], number: int) -> tuple[int, ...]:
    return tuple(values[index % len(values)] for index in range(number))
