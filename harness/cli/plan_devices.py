"""`plan --devices`: where the tables of a model would lie on machines that one does not have."""

import json
import re
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

import click
from click.core import ParameterSource

from harness.cli.table import render_table
from harness.config.run_config import RunConfig

if TYPE_CHECKING:
    from reference_models.dlrm.planner import ModelledPlan

F = TypeVar("F", bound=Callable[..., Any])
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]I?)?B?(/S)?", re.IGNORECASE)
_TOLD_FROM = 128
"""Devices from which a plan takes long enough to say how far it is."""


class Size(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """Bytes, or bytes per second, as people write them: 141GB, 96GiB; 4.8TB/s, 450GB. A number alone has no unit."""

    def __init__(self, *, is_rate: bool = False) -> None:
        self.name = "size/s" if is_rate else "size"
        self._is_rate = is_rate

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        text = str(value).strip()
        like = "450GB/s or 4.8TB/s" if self._is_rate else "141GB or 96GiB"
        if text.replace(".", "", 1).isascii() and text.replace(".", "", 1).isdigit():
            self.fail(f"{text!r} has no unit. Write it like {like}.", param, ctx)
        match = _SIZE.fullmatch(text)
        if match is not None and float(match[1]) <= 0:
            self.fail(f"{text!r} must be more than nothing.", param, ctx)
        if match is None or (match[3] and not self._is_rate):
            self.fail(f"{text!r} is not a number with a unit. Write it like {like}.", param, ctx)
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
    click.option("--devices", "num_devices", type=click.IntRange(1, 4096), help="Plan tables for that many devices."),
    click.option(
        "--device-type", type=click.Choice(["cuda", "cpu"]), default="cuda", show_default=True, help="What they are."
    ),
    click.option("--device-memory", type=Size(), default="80GB", show_default=True, help="Memory of one device."),
    click.option(
        "--device-bandwidth", type=Size(is_rate=True), default="2TB/s", show_default=True, help="Of that memory."
    ),
    click.option(
        "--devices-per-host", type=click.IntRange(min=1), default=8, show_default=True, help="Devices in one machine."
    ),
    click.option(
        "--intra-host-bandwidth",
        type=Size(is_rate=True),
        default="450GB/s",
        show_default=True,
        help="Between devices.",
    ),
    click.option(
        "--inter-host-bandwidth", type=Size(is_rate=True), default="50GB/s", show_default=True, help="Between hosts."
    ),
)


def device_options(command: F) -> F:
    """The options that describe devices one need not have."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def refuse_unused_options(ctx: click.Context) -> None:
    """Raise UsageError for an option that describes devices where --devices asks for no plan over them."""
    if ctx.params["num_devices"] is not None:
        return
    for name in DeviceOptions.__annotations__:
        if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{name.replace('_', '-')} describes the devices of --devices N; give that too.")


def make_devices_plan(config: RunConfig, given: DeviceOptions, data_root: Path | None) -> "ModelledPlan":
    """TorchRec's plan of the configured model over the devices described.

    Raises ConfigError where they cannot hold it, DatasetError where only data that is not there knows its tables.
    """
    from harness.planning.plan import read_sizes
    from harness.run_sets.dataset import how_to_get
    from reference_models.data.registry import locate_dataset
    from reference_models.process.errors import DatasetError
    from reference_models.registry import explain_missing_torchrec, find_implementation

    workload = config.workload
    name, folder = config.benchmark.name, locate_dataset(workload.data, data_root)
    sizes, problem = read_sizes(workload.data, folder)
    if sizes is None:
        told = problem if folder.is_dir() else f"{folder} does not exist. {how_to_get(workload.data)}"
        raise DatasetError(
            f"only its data tells how many rows the tables of {name} have: {str(told).replace('BENCHMARK', name)}"
        )
    find_implementation("torchrec")
    try:
        from reference_models.dlrm.planner import Devices, plan_for_devices
    except (ImportError, OSError) as error:
        raise explain_missing_torchrec(error) from error
    num_devices = given["num_devices"]
    assert num_devices is not None
    return plan_for_devices(
        workload.model,
        workload.train,
        sizes[2],
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
        on_progress=_say_progress if num_devices >= _TOLD_FROM else None,
    )


def _say_progress(num_done: int, num_total: int) -> None:
    if num_done % 5 and num_done != num_total:
        return
    click.echo(f"plan: options of {num_done} of {num_total} tables looked at; Ctrl-C ends it", err=True)


def devices_plan_json(config: RunConfig, made: "ModelledPlan") -> str:
    content = {"schema_version": 1, "kind": "modelled", "benchmark": config.benchmark.name, **asdict(made)}
    return json.dumps(content, indent=1)


def devices_plan_text(config: RunConfig, made: "ModelledPlan") -> str:
    """Placement, load and the parameters that all of it rests on; every number is modelled."""
    from reports.text.formatting import count, num_bytes, si, time_unit

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
    step_time = time_unit([one.step_s for one in made.loads]).text
    loads = [
        (
            str(one.device),
            num_bytes(one.memory_bytes),
            f"{one.memory_bytes / devices.memory_bytes:.0%}",
            num_bytes(one.host_memory_bytes),
            step_time(one.step_s),
        )
        for one in made.loads
    ]
    return "\n\n".join(
        (
            head,
            render_table(("Table", "Rows", "Sharding", "Kernel", "Shards", "Devices"), tables),
            render_table(("Device", "Memory", "Of it", "Host memory", "Embeddings per step"), loads),
            *(("The search for the best plan was cut short; a better one may exist.",) if made.is_search_cut else ()),
            f"Modelled: the slowest device takes {step_time(made.step_s)} per step, {made.balance:.2f} times the "
            "mean, by bandwidths alone: no latency, no dense layers.\n"
            f"Assumed: {si(devices.memory_bytes)}B per device at {si(devices.memory_bandwidth)}B/s, "
            f"{devices.devices_per_host} devices per host, {si(devices.intra_host_bandwidth)}B/s between them, "
            f"{si(devices.inter_host_bandwidth)}B/s between hosts.",
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
