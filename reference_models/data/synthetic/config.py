"""The [data] section of kind made_up: any number of tables, rows and lookups, written by hand or by a sweep."""

from collections.abc import Mapping, Sequence
from typing import Any

from reference_models.config.sections import NUM_CRITEO_DENSE, DataConfig, Section
from reference_models.process.errors import ConfigError

ZIPF_EXPONENT = 1.05
"""Of the ids unless the section says otherwise; 0 draws them uniformly."""
SHAPE_KEYS = ("num_tables", "rows_per_table", "lookups_per_table", "row_scale", "zipf_exponent")
"""What only made-up data has, beside num_embeddings, multi_hot and num_dense of every kind."""
_POOL_BYTES = 1 << 30
_MAX_ROWS = 1 << 40


def parse_made_up(table: Mapping[str, Any]) -> DataConfig:
    """Typed [data] of kind made_up. Raises ConfigError naming the key.

    Tables come from `num_embeddings` and `multi_hot`, repeated in their order up to `num_tables`;
    `rows_per_table` and `lookups_per_table` give all tables the same; `row_scale` multiplies rows.
    """
    section = Section(
        "data", table,
        ("kind", "name", "num_dense", "num_embeddings", "multi_hot", "train_samples", "eval_samples", "seed",
         *SHAPE_KEYS),
    )  # fmt: skip
    rows = section.wholes("num_embeddings", low=1) if "num_embeddings" in table else None
    hots = section.wholes("multi_hot", low=1) if "multi_hot" in table else None
    rows_per_table = section.optional_whole("rows_per_table", low=1)
    lookups_per_table = section.optional_whole("lookups_per_table", low=1)
    num_tables = section.optional_whole("num_tables", low=1)
    if rows is None and rows_per_table is None:
        raise ConfigError("data.num_embeddings is missing: made-up data needs it, or data.rows_per_table.")
    if num_tables is None:
        lengths = {len(values) for values in (rows, hots) if values is not None}
        if len(lengths) != 1:
            expected = f"{len(rows)} numbers, one per table" if rows and hots else "given, or data.num_tables"
            raise section.fail("multi_hot", expected)
        num_tables = lengths.pop()
    scale = section.number("row_scale", low=0.0, default=1.0)
    if rows_per_table is not None:
        rows = (rows_per_table,)
    if lookups_per_table is not None or hots is None:
        hots = (lookups_per_table or 1,)
    if scale == 0 or max(rows or ()) * scale > _MAX_ROWS:
        raise section.fail("row_scale", f"a factor above 0 that leaves every table at most {_MAX_ROWS} rows")
    return DataConfig(
        kind="made_up",
        name=section.text("name", default="made_up"),
        train_samples=section.optional_whole("train_samples", low=1),
        eval_samples=section.optional_whole("eval_samples", low=1),
        num_dense=section.whole("num_dense", low=1, default=NUM_CRITEO_DENSE),
        num_embeddings=tuple(max(1, round(num * scale)) for num in _repeat(rows or (), num_tables)),
        multi_hot=_repeat(hots, num_tables),
        seed=section.whole("seed", low=0, default=0),
        sha256=None,
        parameters={"zipf_exponent": section.number("zipf_exponent", low=0.0, high=8.0, default=ZIPF_EXPONENT)},
    )


def bytes_per_sample(data: DataConfig) -> int:
    """Of one sample in memory: float32 dense features, int64 ids, float32 label."""
    return 4 * data.num_dense + 8 * data.num_lookups + 4


def fitting_samples(data: DataConfig, global_batch_size: int, num_batches: int) -> int:
    """Samples to hold: `num_batches` as far as 1 GiB holds whole batches, at least one.

    As many as there will be steps, so that no batch comes twice and finds its rows in the caches.
    """
    fitting = _POOL_BYTES // (global_batch_size * bytes_per_sample(data))
    return global_batch_size * max(1, min(num_batches, fitting))


def _repeat(values: Sequence[int], number: int) -> tuple[int, ...]:
    return tuple(values[index % len(values)] for index in range(number))
