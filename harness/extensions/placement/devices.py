"""Lay a model's embedding tables over devices, which need not be on this machine, by TorchRec's planner, and describe
its plan."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from itertools import accumulate
from pathlib import Path
from typing import Literal

from harness.config.run_config import RunConfig
from harness.extensions.placement.shown import RESERVE
from harness.foundation.study import make_check, make_table
from harness.planning.plan import require_table_rows
from reference_models.config.sections import PLAN
from reference_models.distributed.planner_estimate import Devices, PlannerEstimate, TablePlacement
from reference_models.distributed.search.task import EmbeddingTable, PlacementPlan, TablePart, TableShard, Task
from reference_models.process.errors import ConfigError
from reports.text.formatting import duration
from rules.records.study import Parameter, StudyCheck, StudyTable

_REPORTED_FROM = 128
"""Number of devices from which on TorchRec's planner takes so long that its progress is shown."""


_PARAMETERS = (
    ("num_devices", "devices", None),
    ("device_type", "device type", None),
    ("memory_bytes", "memory of one device", "B"),
    ("reserve", RESERVE, "share"),
    ("memory_bandwidth", "bandwidth of that memory", "B/s"),
    ("devices_per_host", "devices per host", None),
    ("intra_host_bandwidth", "bandwidth within a host", "B/s"),
    ("inter_host_bandwidth", "bandwidth between hosts", "B/s"),
    ("intra_host_latency_s", "latency within a host", "s"),
    ("inter_host_latency_s", "latency between hosts", "s"),
)
"""Fields of Devices (sizes and rates), each with its name and unit among the parameters of a study."""
_LAYOUTS: Mapping[str, Literal["rows", "host_rows", "copy"] | None] = {
    **dict.fromkeys(("table_wise", "column_wise", "table_column_wise")),
    "row_wise": "rows",
    "table_row_wise": "host_rows",
    "grid_shard": "host_rows",
    "data_parallel": "copy",
}
"""Dict from TorchRec's sharding types to the `layout` of a `TablePart`. The value is None for whole tables and for
tables cut by columns, whose parts are costed as tables."""
_ONE_THREAD = "a copy on one thread of this CPU, read and written"
_OF_GPUS = "assumed: a link of hosts with GPUs"


def make_devices_plan(
    config: RunConfig,
    devices: Devices,
    data_root: Path | None,
    on_progress: Callable[[int, int], None],
    sharding: str | None = None,
) -> PlannerEstimate:
    """Return the plan of TorchRec's planner for the model's tables on `devices`. `sharding`, if given, replaces the
    sharding type of the configuration.

    `on_progress` is called with the number of tables that the planner has looked at, and the number of all tables.
    Raises ConfigError if the devices cannot hold the model, and DatasetError if the tables' sizes follow from data
    that is missing.
    """
    workload = config.workload
    plan_devices = workload.model_spec.plan_devices
    if plan_devices is None:
        raise ConfigError(f"there is no planner for the model of {config.benchmark.name} ({workload.model_name}).")
    if workload.runtime.sharding.startswith(PLAN):
        raise ConfigError("runtime.sharding is a plan, and TorchRec's planner would make one. Give a type, or auto.")
    table_rows = require_table_rows(config, data_root)
    return plan_devices(
        workload.model,
        workload.train,
        table_rows,
        workload.data.mapped.multi_hot,
        num_dense=workload.data.num_dense,
        sharding=sharding or workload.runtime.sharding,
        devices=devices,
        on_progress=on_progress if devices.num_devices >= _REPORTED_FROM else None,
    )


def plan_of_estimate(estimate: PlannerEstimate) -> PlacementPlan | None:
    """Return TorchRec's plan as a placement plan, which gives devices whole tables or ranges of a table's columns;
    None if TorchRec's plan cuts tables by rows, copies tables, or leaves tables outside of the devices."""

    def shards_of(table: TablePlacement) -> list[TableShard]:
        widths = [columns for _, columns in table.shard_shapes]
        starts = accumulate([0, *widths[:-1]])
        return [
            TableShard(table=table.table, first_column=first, num_columns=width, device=device)
            for first, width, device in zip(starts, widths, table.devices, strict=True)
        ]

    types = ("table_wise", "column_wise", "table_column_wise")
    if any(table.sharding not in types or table.is_outside_devices for table in estimate.tables):
        return None
    return PlacementPlan(shards=tuple(sorted(shard for table in estimate.tables for shard in shards_of(table))))


def parts_of_estimate(estimate: PlannerEstimate, task: Task) -> list[list[EmbeddingTable]] | None:
    """Return the tables and parts that each device holds by TorchRec's plan, in a form whose costs can be modelled;
    None if the plan has tables outside of the devices, or a sharding type without a known cost."""
    held: list[list[EmbeddingTable]] = [[] for _ in range(task.num_devices)]
    for placed in estimate.tables:
        whole = task.tables[placed.table]
        if placed.is_outside_devices or placed.sharding not in _LAYOUTS:
            return None
        layout = _LAYOUTS[placed.sharding]
        for (rows, columns), device in zip(placed.shard_shapes, placed.devices, strict=True):
            if layout is None:
                held[device].append(whole.with_columns(columns))
            elif rows:
                held[device].append(
                    TablePart(
                        num_embeddings=rows,
                        dim=columns,
                        pooling=whole.pooling * rows / whole.num_embeddings,
                        reuse=whole.reuse,
                        optimizer=whole.optimizer,
                        layout=layout,
                        sample_share=1 / task.num_devices if layout == "copy" else 1.0,
                    )
                )
    return held


def describe_layouts(estimate: PlannerEstimate) -> str:
    """Return the number of tables for each sharding type of TorchRec's plan in words: '20 table_wise, 6 row_wise'."""
    counts = Counter(table.sharding for table in estimate.tables)
    return ", ".join(f"{count} {name}" for name, count in counts.most_common())


def torchrec_tables(config: RunConfig, estimate: PlannerEstimate) -> tuple[list[StudyTable], list[str], StudyCheck]:
    """Return tables that list TorchRec's plan by embedding table and by device, sentences on the plan, and a check
    that all elements are placed."""
    devices = estimate.devices
    dimension = config.workload.costs(tuple(table.num_embeddings for table in estimate.tables)).row_width
    placed = sum(rows * columns for table in estimate.tables for rows, columns in table.shard_shapes)
    expected = sum(
        table.num_embeddings * dimension * (devices.num_devices if table.sharding == "data_parallel" else 1)
        for table in estimate.tables
    )
    outside = sum(table.is_outside_devices for table in estimate.tables)
    findings = [
        "TorchRec's planner models its placements and loads by bandwidths alone, without latency and dense layers. "
        f"The planner's {duration(estimate.step_s)} per step on the slowest device, {estimate.balance:.2f} times the "
        "mean of all devices, is not comparable with the costs in dlrmbench's table of plans, which has TorchRec's "
        "plan, too.",
    ]
    if outside:
        findings.append(
            f"{outside} of {len(estimate.tables)} tables stay outside of the devices' memory; a run refuses that."
        )
    if estimate.is_search_cut:
        findings.append("TorchRec's search for the best plan was cut short; a better one may exist.")
    tables = [
        make_table(
            "TorchRec: where each table would be",
            (
                ("Table", None, "given"), ("Rows", None, "given"), ("Sharding", None, "modelled"),
                ("Kernel", None, "modelled"), ("Shards", None, "modelled"), ("Shard rows", None, "modelled"),
                ("Shard columns", None, "modelled"), ("Devices", None, "modelled"),
            ),
            [
                (
                    table.table, table.num_embeddings, table.sharding, table.kernel, len(table.shard_shapes),
                    *map(max, zip(*table.shard_shapes, strict=True)), table.devices,
                )
                for table in estimate.tables
            ],
        ),
        make_table(
            "TorchRec: what each device would hold, and its lookups per step",
            (
                ("Device", None, "given"), ("Memory", "B", "modelled"), ("Of its memory", "share", "modelled"),
                ("Host memory", "B", "modelled"), ("Embeddings per step", "s", "modelled"),
            ),
            [
                (
                    load.device, load.memory_bytes, load.memory_bytes / devices.memory_bytes,
                    load.host_memory_bytes, load.step_s,
                )
                for load in estimate.loads
            ],
        ),
    ]  # fmt: skip
    return tables, findings, make_check("elements of all tables placed", expected=expected, found=placed)


def list_device_parameters(
    devices: Devices, given: Collection[str], measured: Collection[str] = ()
) -> list[Parameter]:
    """List the devices' rates and sizes as parameters of a study; `given` names the fields of `devices` set by the
    user, `measured` those measured on this CPU. Assumed rates of CPUs get a note."""
    is_cpu = devices.device_type == "cpu"
    return [
        Parameter(
            name=name,
            value=getattr(devices, member),
            unit=unit,
            source="given" if member in given else "measured" if member in measured else "default",
            note=_ONE_THREAD
            if member in measured
            else _OF_GPUS
            if is_cpu and unit == "B/s" and member not in given
            else None,
        )
        for member, name, unit in _PARAMETERS
    ]
