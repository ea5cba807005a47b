"""Settings that training over several ranks does not support, refused before anything starts; torch-free."""

from reference_models.config.sections import RuntimeConfig, TrainConfig, parse_comm, parse_sharding
from reference_models.process.errors import ConfigError

COLUMN_TYPES = ("column_wise", "table_column_wise", "grid_shard")
_SENDS_PARTIAL_SUMS = ("auto", "row_wise", "table_row_wise", "grid_shard")
_CPU_COMM = ("fp32", "fp16", "int8")


def refuse_impossible_ranks(train: TrainConfig, runtime: RuntimeConfig, num_ranks: int) -> None:
    """Raise ConfigError for settings that TorchRec does not support over several ranks: settings that it refuses,
    fails with, or silently replaces."""
    if train.global_batch_size % num_ranks:
        raise ConfigError(
            f"train.global_batch_size is {train.global_batch_size}, which {num_ranks} ranks cannot share equally. "
            "Choose a multiple of the number of ranks."
        )
    planned = parse_sharding(runtime.sharding) or ()
    if planned and (last := max(map(max, planned))) >= num_ranks:
        raise ConfigError(
            f"runtime.sharding {runtime.sharding!r} has tables on rank {last}, counted from 0, but there are "
            f"{num_ranks} ranks. Give --ranks {last + 1}, or a plan for as many devices as there are ranks."
        )
    cuts_rows = runtime.sharding in COLUMN_TYPES or any(len(ranks) > 1 for ranks in planned)
    if train.opt_name == "rowwise_adagrad" and cuts_rows:
        raise ConfigError(
            f"runtime.sharding {runtime.sharding!r} cuts rows, and row-wise Adagrad would keep one state per piece. "
            "Use table_wise or row_wise, or element-wise Adagrad."
        )
    if train.optimizer.get("opt_adagrad_learning_rate_decay", 0.0):
        raise ConfigError("train.opt_adagrad_learning_rate_decay must be 0: FBGEMM's Adagrad has no decay.")
    for precision in set(parse_comm(runtime.comm)) - {"fp32"}:
        _refuse_comm(precision, runtime)


def _refuse_comm(precision: str, runtime: RuntimeConfig) -> None:
    if runtime.device == "cpu" and precision not in _CPU_COMM:
        raise ConfigError(
            f"runtime.comm {runtime.comm!r}: between CPUs TorchRec has no {precision} (it would take fp16 for bf16, "
            f"and fail with fp8). Use one of {', '.join(_CPU_COMM)}."
        )
    if precision in ("int8", "fp8") and runtime.sharding in _SENDS_PARTIAL_SUMS:
        raise ConfigError(
            f"runtime.comm {runtime.comm!r}: with sharding {runtime.sharding!r} ranks add up partial sums, which "
            f"cannot travel in {precision}. Use fp16, or shard table_wise or column_wise."
        )
