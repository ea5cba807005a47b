"""Read section [data] of synthetic data: any number of tables, rows and lookups, from a benchmark definition or a
sweep."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from msgspec import Meta

from reference_models.config.records import Amount, Count, Counts, PositiveCount, read_section, refuse
from reference_models.config.sections import NUM_CRITEO_DENSE, DataConfig
from reference_models.process.errors import ConfigError

SYNTHETIC_KINDS = ("made_up", "synthetic")
"""Values of data.kind that mean synthetic data. Digests and records use the first; definitions may use either."""
ZIPF_EXPONENT = 1.05
"""Default exponent of Zipf's law by which ids of synthetic data are drawn; 0 draws ids uniformly."""
SHAPE_KEYS = ("num_tables", "rows_per_table", "lookups_per_table", "row_scale", "zipf_exponent", "labels")
"""Keys of section [data] that only synthetic data has; num_embeddings, multi_hot and num_dense are keys for every
kind of data."""
_POOL_BYTES = 1 << 30
_MAX_ROWS = 1 << 40


@dataclass(frozen=True, kw_only=True)
class SyntheticSection:
    """Section [data] of synthetic data in memory. Tables' sizes are listed in num_embeddings and multi_hot, or set
    for all tables alike by rows_per_table and lookups_per_table."""

    kind: Literal["made_up", "synthetic"]
    """Kind of data; "made_up" and "synthetic" mean the same. The data are for throughput only unless `labels` is
    `planted`."""
    name: str = SYNTHETIC_KINDS[0]
    """Name of the dataset."""
    num_dense: PositiveCount = NUM_CRITEO_DENSE
    """Number of dense features per sample."""
    num_embeddings: Counts | None = None
    """Number of rows of each embedding table."""
    multi_hot: Counts | None = None
    """Number of ids per sample of each embedding table; one if left out."""
    train_samples: PositiveCount | None = None
    """Number of training samples in memory; if left out, as many as the training steps need."""
    eval_samples: PositiveCount | None = None
    """Number of samples of an evaluation; if left out, as many as for training."""
    seed: Count = 0
    """Seed of the random samples."""
    num_tables: PositiveCount | None = None
    """Number of embedding tables; num_embeddings and multi_hot are repeated in order up to this number."""
    rows_per_table: PositiveCount | None = None
    """Number of rows of every table, instead of num_embeddings."""
    lookups_per_table: PositiveCount | None = None
    """Number of ids per sample of every table, instead of multi_hot."""
    row_scale: Amount = 1.0
    """Factor by which the rows of every table are multiplied."""
    zipf_exponent: Annotated[float, Meta(ge=0, le=8)] = ZIPF_EXPONENT
    """Zipf exponent of the ids: an id's probability is proportional to rank ** -exponent; 0 is uniform."""
    labels: Literal["coin_flips", "planted"] = "coin_flips"
    """Labels: random (`coin_flips`), or drawn from a hidden logistic model of dense features and ids (`planted`).
    With `planted`, models that `serve` trains can rank better than chance."""


def has_signal(data: DataConfig) -> bool:
    """Return whether a dataset's labels can be learned, unlike the random labels of synthetic data by default."""
    return data.kind not in SYNTHETIC_KINDS or data.parameters.get("labels") == "planted"


def parse_synthetic(table: Mapping[str, Any]) -> DataConfig:
    """Read section [data] of synthetic data. Raises ConfigError naming the wrong key.

    The tables' sizes are the values of `num_embeddings` and `multi_hot`, repeated in order up to `num_tables`.
    `rows_per_table` and `lookups_per_table` instead set one value for all tables. `row_scale` multiplies the numbers
    of rows.
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
        # Labels `coin_flips` are not named here: records made before labels could be chosen mean these.
        parameters={"zipf_exponent": section.zipf_exponent} | ({"labels": "planted"} if planted else {}),
    )


def count_bytes_per_sample(data: DataConfig) -> int:
    """Return the bytes that a synthetic sample takes in memory: float32 dense features, int64 ids, float32 label."""
    return 4 * data.num_dense + 8 * data.num_lookups + 4


def fitting_samples(data: DataConfig, global_batch_size: int, num_batches: int) -> int:
    """Return the number of synthetic samples to hold in memory: `num_batches` batches, or as many batches as fit 1
    GiB if these are fewer, but at least one batch.

    If memory holds a batch for each training step, no batch is used twice, so no step finds its embedding rows in
    caches because an earlier step used the same batch.
    """
    fitting = _POOL_BYTES // (global_batch_size * count_bytes_per_sample(data))
    return global_batch_size * max(1, min(num_batches, fitting))


def _repeat(values: Sequence[int], number: int) -> tuple[int, ...]:
    return tuple(values[index % len(values)] for index in range(number))
