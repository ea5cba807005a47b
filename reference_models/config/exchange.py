"""Names of what ranks exchange and how tables are shared out; apart, since help needs them and no configuration."""

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
"""How embedding tables may be placed over ranks: TorchRec's sharding types, or what its planner chooses."""
COMM_PRECISIONS = ("fp32", "fp16", "bf16", "fp8", "int8")
"""Precisions in which embeddings travel (torchrec's CommType)."""
