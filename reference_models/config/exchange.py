"""Names of the ways to shard embedding tables over ranks, and to send embeddings. The module imports nothing, so that
help texts can use the names without importing torch."""

SHARDING_TYPES = (
    "auto",
    "data_parallel",
    "table_wise",
    "column_wise",
    "row_wise",
    "table_row_wise",
    "table_column_wise",
    "grid_shard",
)
"""Ways to place embedding tables on ranks: TorchRec's sharding types, or `auto`, its planner's choice for each
table."""
COMM_PRECISIONS = ("fp32", "fp16", "bf16", "fp8", "int8")
"""Precisions in which ranks send embeddings to one another (torchrec's CommType)."""
