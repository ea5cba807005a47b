"""`plan --devices`: where the tables of a model would lie on machines that one does not have."""

import json
import re
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

import click

from harness.cli.table import render_table
from harness.config import RunConfig

if TYPE_CHECKING:
    from reference_models.dlrm.modelled_plan import ModelledPlan

F = TypeVar("F", bound=Callable[..., Any])
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]I?)?B?(?:/S)?", re.IGNORECASE)


class Size(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """Bytes, or bytes per second, as people write them: 141GB, 96GiB, 4.8TB, 450GB/s."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        match = _SIZE.fullmatch(str(value).strip())
        if match is None or float(match[1]) <= 0:
            self.fail(f"{value!r} is no size. Write it like 141GB, 96GiB or 450GB/s.", param, ctx)
        return int(float(match[1]) * _UNITS[(match[2] or "").upper()])


class DeviceOptions(TypedDict):
    """What the options of `device_options` hand to the verb."""

    num_devices: int | None
    device_type: str
    device_memory: int
    device_bandwidth: int
    devices_per_host: int
    intra_host_bandwidth: int
    inter_host_bandwidth: int


_OPTIONS = (
    click.option("--devices", "num_devices", type=click.IntRange(min=1), help="Plan tables for that many devices."),
    click.option(
        "--device-type", type=click.Choice(["cuda", "cpu"]), default="cuda", show_default=True, help="What they are."
    ),
    click.option("--device-memory", type=Size(), default="80GB", show_default=True, help="Memory of one device."),
    click.option("--device-bandwidth", type=Size(), default="2TB/s", show_default=True, help="Of that memory."),
    click.option(
        "--devices-per-host", type=click.IntRange(min=1), default=8, show_default=True, help="Devices in one machine."
    ),
    click.option(
        "--intra-host-bandwidth", type=Size(), default="450GB/s", show_default=True, help="Between devices."
    ),
    click.option("--inter-host-bandwidth", type=Size(), default="50GB/s", show_default=True, help="Between hosts."),
)


def device_options(command: F) -> F:
    """The options that describe devices one need not have."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def make_devices_plan(config: RunConfig, given: DeviceOptions) -> "ModelledPlan":
    """TorchRec's plan of the configured model over the devices described."""
    from reference_models.errors import ConfigError
    from reference_models.implementations import explain_missing_torchrec

    try:
        from reference_models.dlrm.modelled_plan import Devices, plan_for_devices
    except (ImportError, OSError) as error:
        raise explain_missing_torchrec(error) from error
    workload = config.workload
    if workload.data.num_embeddings is None:
        raise ConfigError(f"{config.benchmark.name}: how many rows its tables have is known once data is prepared.")
    num_devices = given["num_devices"]
    assert num_devices is not None
    return plan_for_devices(
        workload.model,
        workload.train,
        workload.data.num_embeddings,
        workload.data.multi_hot,
        num_dense=workload.data.num_dense,
        sharding=workload.runtime.sharding,
        devices=Devices(
            num_devices=num_devices,
            device_type=given["device_type"],
            memory_bytes=given["device_memory"],
            memory_bandwidth=given["device_bandwidth"],
            devices_per_host=given["devices_per_host"],
            intra_host_bandwidth=given["intra_host_bandwidth"],
            inter_host_bandwidth=given["inter_host_bandwidth"],
        ),
    )


def devices_plan_json(config: RunConfig, made: "ModelledPlan") -> str:
    content = {"schema_version": 1, "kind": "modelled", "benchmark": config.benchmark.name, **asdict(made)}
    return json.dumps(content, indent=1)


def devices_plan_text(config: RunConfig, made: "ModelledPlan") -> str:
    """Placement, load and the parameters that all of it rests on; every number is modelled."""
    from reports.formatting import count, duration, num_bytes

    devices = made.devices
    head = (
        f"{config.benchmark.name}: tables over {devices.num_devices} {devices.device_type} devices, sharding "
        f"{made.sharding}, global batch {count(made.global_batch_size)}. All numbers are modelled by TorchRec's "
        "planner."
    )
    tables = [
        (
            str(one.table),
            count(one.num_embeddings),
            one.sharding,
            one.kernel,
            _shards(one.shard_shapes),
            _runs(one.devices),
        )
        for one in made.tables
    ]
    loads = [
        (
            str(one.device),
            num_bytes(one.memory_bytes),
            f"{one.memory_bytes / devices.memory_bytes:.0%}",
            num_bytes(one.host_memory_bytes),
            duration(one.step_s),
        )
        for one in made.loads
    ]
    return "\n\n".join(
        (
            head,
            render_table(("Table", "Rows", "Sharding", "Kernel", "Shards", "Devices"), tables),
            render_table(("Device", "Memory", "Of it", "Host memory", "Embeddings per step"), loads),
            f"Slowest device {duration(made.step_s)} per step, {made.balance:.2f} times the mean; without the dense "
            "layers.\n"
            f"Assumed: {num_bytes(devices.memory_bytes)} per device at {num_bytes(int(devices.memory_bandwidth))}/s, "
            f"{devices.devices_per_host} devices per host, {num_bytes(int(devices.intra_host_bandwidth))}/s between "
            f"them, {num_bytes(int(devices.inter_host_bandwidth))}/s between hosts.",
        )
    )


def _shards(shapes: tuple[tuple[int, int], ...]) -> str:
    rows, columns = shapes[0]
    return f"{len(shapes)} of {rows} x {columns}"


def _runs(devices: tuple[int, ...]) -> str:
    """Device numbers with neighbours drawn together: 0-7, or 1, 4."""
    parts: list[list[int]] = []
    for device in sorted(set(devices)):
        if parts and device == parts[-1][-1] + 1:
            parts[-1].append(device)
        else:
            parts.append([device])
    return ", ".join(str(one[0]) if len(one) == 1 else f"{one[0]}-{one[-1]}" for one in parts)
