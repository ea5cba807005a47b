"""Read and write plans that place embedding tables on ranks: in files, and as values of `runtime.sharding`."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from harness.config.catalog import WorkloadConfig
from harness.foundation.errors import ExitCode, HarnessError
from harness.foundation.files import read_record
from reference_models.config.sections import PLAN, is_written_out, parse_sharding
from reference_models.distributed.search.task import EmbeddingTable, PlacementPlan, TableShard, Task, find_fault
from reference_models.process.errors import ConfigError
from rules.records.codec import VERSION, convert
from rules.records.kept.placement import PlanRecord


def record_plan(task: Task, plan: PlacementPlan, **found: Any) -> PlanRecord:
    """Return the JSON record of a sharding plan, which places embedding tables on ranks; `found` has further fields
    of the record: how the plan was found, and for which benchmark."""
    shards = [asdict(shard) for shard in plan.shards]
    content = {**asdict(task), "shards": shards, "task": task.name, "task_sha256": task.digest, **found}
    del content["name"], content["kept"]
    return convert({"schema_version": VERSION, **content}, PlanRecord)


def read_plan(path: Path) -> tuple[Task, PlacementPlan]:
    """Return a plan that places embedding tables on ranks, and the task that it solves (tables, devices, memory,
    batch size), from a file. Raises HarnessError (exit 8) for an invalid file or a plan that does not fit the
    task."""
    record = read_record(path, PlanRecord)
    task = Task(
        name=record.task,
        tables=tuple(EmbeddingTable(**to_builtins(table)) for table in record.tables),
        num_devices=record.num_devices,
        memory_bytes=record.memory_bytes,
        batch_size=record.batch_size,
    )
    plan = PlacementPlan(shards=tuple(TableShard(**to_builtins(shard)) for shard in record.shards))
    is_other = task.digest != record.task_sha256
    fault = f"task_sha256 is of another task, expected {task.digest}" if is_other else find_fault(task, plan)
    if fault is not None:
        raise HarnessError(f"{path}: {fault}. Make the plan again with 'dlrmbench place'.", ExitCode.INPUT)
    return task, plan


def write_sharding(task: Task, plan: PlacementPlan) -> str:
    """Return a plan that places embedding tables on ranks as a value of `runtime.sharding`.

    Raises ConfigError for a plan that cannot be run: with parts of unequal width, or a cut table under row-wise
    Adagrad.
    """
    parts: list[list[TableShard]] = [[] for _ in task.tables]
    for shard in sorted(plan.shards):
        parts[shard.table].append(shard)
    for number, shards in enumerate(parts):
        if len(widths := {shard.num_columns for shard in shards}) > 1:
            raise ConfigError(
                f"table {number} is cut into parts of {', '.join(map(str, sorted(widths)))} columns; TorchRec's "
                "column_wise cuts a table into equal parts. Take a plan of another search."
            )
        if len(shards) > 1 and task.tables[number].optimizer == "rowwise_adagrad":
            raise ConfigError(f"table {number} is cut: row-wise Adagrad would keep a state per part. Cut no table.")
    return PLAN + ",".join("+".join(str(shard.device) for shard in shards) for shards in parts)


def take_plan(runtime: dict[str, Any]) -> Task | None:
    """If `runtime["sharding"]` names the file of a sharding plan (embedding tables placed on ranks), replace the name
    by the plan itself. Return the task for which the plan was made (tables, devices, memory, batch size); None if no
    file is named.

    Raises HarnessError or ConfigError if the plan is damaged or cannot be run.
    """
    given = runtime.get("sharding")
    if not isinstance(given, str) or not given.startswith(PLAN) or is_written_out(given):
        return None
    task, plan = read_plan(Path(given.removeprefix(PLAN)))
    runtime["sharding"] = write_sharding(task, plan)
    return task


def refuse_other_plan(workload: WorkloadConfig, task: Task | None) -> None:
    """Raise ConfigError if the workload's sharding plan does not fit the workload: the plan is for other embedding
    tables or another number of ranks, or cuts a table's columns into parts that FBGEMM does not support. `task` is
    the task (tables, devices, …) in the plan's file; None if the plan did not come from a file."""
    ranks = parse_sharding(workload.runtime.sharding)
    if ranks is None:
        return
    data, num_ranks = workload.data.mapped, workload.runtime.ranks
    dim = workload.costs([1] * data.num_sparse).row_width
    rows = data.num_embeddings
    if task is not None and task.num_devices != num_ranks:
        raise ConfigError(
            f"runtime.sharding: the plan is of {task.num_devices} devices, and the run has {num_ranks} ranks. Give "
            f"--ranks {task.num_devices}, or make a plan for --devices {num_ranks}."
        )
    is_other = task is not None and (
        {table.dim for table in task.tables} != {dim}
        or (rows is not None and tuple(table.num_embeddings for table in task.tables) != rows)
    )
    if is_other or len(ranks) != data.num_sparse:
        raise ConfigError(
            f"runtime.sharding: the plan is of {len(ranks)} tables that are not this model's, which has "
            f"{data.num_sparse} of {dim} columns. Make its own plan with 'dlrmbench place'."
        )
    for number, each in enumerate(ranks):
        if dim % (4 * len(each)) and len(each) > 1:
            raise ConfigError(
                f"runtime.sharding: {dim} columns of table {number} cannot be cut into {len(each)} parts of a "
                "multiple of 4 columns, as FBGEMM has them."
            )
