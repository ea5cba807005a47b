"""`plan --devices`: where the tables of a model would lie on machines that one does not have."""

from collections.abc import Callable
from pathlib import Path
from typing import TypedDict

from harness.config.run_config import RunConfig
from harness.planning.plan import read_sizes
from harness.run_sets.dataset import how_to_get
from reference_models.data.registry import locate_dataset
from reference_models.distributed.placement import Devices, PlannerEstimate
from reference_models.process.errors import ConfigError, DatasetError

_REPORTED_FROM = 128
"""Devices from which a plan takes long enough to say how far it is."""


class DeviceOptions(TypedDict):
    """Devices that need not be here; bytes, and bytes per second. `num_devices` None: nothing is planned for any."""

    num_devices: int | None
    device_type: str
    device_memory: int
    device_bandwidth: int
    devices_per_host: int
    intra_host_bandwidth: int
    inter_host_bandwidth: int


def make_devices_plan(
    config: RunConfig, given: DeviceOptions, data_root: Path | None, on_progress: Callable[[int, int], None]
) -> PlannerEstimate:
    """Let the model's planner lay its tables over the devices described.

    `on_progress` is called with how many tables were looked at, and of how many. Raises ConfigError where the devices
    cannot hold the model, DatasetError where only data that is not there knows its tables.
    """
    workload = config.workload
    plan_devices = workload.model_spec.plan_devices
    if plan_devices is None:
        raise ConfigError(f"there is no planner for the model of {config.benchmark.name} ({workload.model_name}).")
    name, folder = config.benchmark.name, locate_dataset(workload.data, data_root)
    sizes, problem = read_sizes(workload.data, folder)
    if sizes is None:
        told = problem if folder.is_dir() else f"{folder} does not exist. {how_to_get(workload.data)}"
        raise DatasetError(
            f"only its data tells how many rows the tables of {name} have: {str(told).replace('BENCHMARK', name)}"
        )
    num_devices = given["num_devices"]
    assert num_devices is not None
    return plan_devices(
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
        on_progress=on_progress if num_devices >= _REPORTED_FROM else None,
    )
