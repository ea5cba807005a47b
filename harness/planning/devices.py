"""`plan --devices`: where the tables of a model would be on machines that need not be here."""

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Literal

from harness.config.run_config import RunConfig
from harness.foundation.study import make_check, make_study, make_table
from harness.planning.plan import explain_data, read_sizes
from reference_models.data.registry import locate_dataset
from reference_models.distributed.placement import Devices, PlannerEstimate
from reference_models.process.errors import ConfigError, DatasetError
from reports.text.formatting import duration
from rules.records.study import Parameter, StudyRecord

_REPORTED_FROM = 128
"""Devices from which a plan takes long enough to say how far it is."""


_PARAMETERS = (
    ("num_devices", "devices", None), ("device_type", "device type", None),
    ("memory_bytes", "memory of one device", "B"), ("memory_bandwidth", "bandwidth of that memory", "B/s"),
    ("devices_per_host", "devices per host", None), ("intra_host_bandwidth", "bandwidth within a host", "B/s"),
    ("inter_host_bandwidth", "bandwidth between hosts", "B/s"),
)  # fmt: skip
"""Members of Devices, and the names and units of the parameters that they are in a study."""


def require_sizes(config: RunConfig, data_root: Path | None) -> tuple[int, int, tuple[int, ...]]:
    """Return what `read_sizes` reads. Raises DatasetError where only data that is not there knows it."""
    name, folder = config.benchmark.name, locate_dataset(config.workload.data, data_root)
    sizes, problem = read_sizes(config.workload.data, folder)
    if sizes is None:
        why = explain_data(config, folder, data_root, problem)
        raise DatasetError(f"only its data says how many rows the tables of {name} have: {why}")
    return sizes


def make_devices_plan(
    config: RunConfig, devices: Devices, data_root: Path | None, on_progress: Callable[[int, int], None]
) -> PlannerEstimate:
    """Let the model's planner lay its tables over `devices`.

    `on_progress` is called with how many tables were looked at, and of how many. Raises ConfigError where the devices
    cannot hold the model, DatasetError where only data that is not there knows its tables.
    """
    workload = config.workload
    plan_devices = workload.model_spec.plan_devices
    if plan_devices is None:
        raise ConfigError(f"there is no planner for the model of {config.benchmark.name} ({workload.model_name}).")
    sizes = require_sizes(config, data_root)
    return plan_devices(
        workload.model,
        workload.train,
        sizes[2],
        workload.data.mapped.multi_hot,
        num_dense=workload.data.num_dense,
        sharding=workload.runtime.sharding,
        devices=devices,
        on_progress=on_progress if devices.num_devices >= _REPORTED_FROM else None,
    )


def devices_study(config: RunConfig, estimate: PlannerEstimate, given: Collection[str]) -> StudyRecord:
    """Make the estimate a study: where tables would be and what each device would hold; every number is modelled.

    `given` names the members of Devices that the user gave; the others are defaults.
    """
    devices = estimate.devices
    dimension = config.workload.costs(tuple(table.num_embeddings for table in estimate.tables)).row_width
    placed = sum(rows * columns for table in estimate.tables for rows, columns in table.shard_shapes)
    expected = sum(
        table.num_embeddings * dimension * (devices.num_devices if table.sharding == "data_parallel" else 1)
        for table in estimate.tables
    )
    outside = sum(table.is_outside_devices for table in estimate.tables)
    kept = (
        (f"{outside} of {len(estimate.tables)} tables stay outside of the devices' memory; a run refuses that.",)
        if outside
        else ()
    )
    cut = ("The search for the best plan was cut short; a better one may exist.",) if estimate.is_search_cut else ()
    return make_study(
        "devices",
        f"{config.benchmark.name}: tables over {devices.num_devices} {devices.device_type} devices",
        config.benchmark,
        findings=(
            "All placements and loads are modelled by TorchRec's planner: by bandwidths alone, no latency, no dense "
            "layers.",
            f"The slowest device takes {duration(estimate.step_s)} per step, {estimate.balance:.2f} times the mean.",
            *kept,
            *cut,
        ),
        tables=(
            make_table(
                "Where each table would be",
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
                "What each device would hold, and its lookups per step",
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
        ),
        parameters=(
            *(
                Parameter(
                    name=name, value=getattr(devices, member), unit=unit,
                    source="given" if member in given else "default", note=None,
                )
                for member, name, unit in _PARAMETERS
            ),
            *(
                Parameter(name=name, value=value, unit=None, source=source_of(config, key), note=key)
                for name, value, key in (
                    ("global batch size", estimate.global_batch_size, "train.global_batch_size"),
                    ("sharding asked for", estimate.sharding, "runtime.sharding"),
                )
            ),
        ),
        checks=(make_check("elements of all tables placed", expected=expected, found=placed),),
    )  # fmt: skip


def source_of(config: RunConfig, key: str) -> Literal["definition", "default", "given"]:
    """Return who said the value of a key, as the parameters of a study have it."""
    source = config.values()[key]["source"]
    return source if source in ("definition", "default") else "given"
