"""Placement of tables by TorchRec's planner on devices that need not exist, with memory and time estimated.

Everything is estimated by TorchRec's planner (its storage and performance estimators); nothing is measured.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torchrec.distributed.planner import EmbeddingShardingPlanner, Topology
from torchrec.distributed.planner.enumerators import EmbeddingEnumerator
from torchrec.distributed.planner.storage_reservations import HeuristicalStorageReservation
from torchrec.distributed.planner.types import ParameterConstraints, PlannerError, ShardingOption
from torchrec.modules.embedding_configs import EmbeddingBagConfig
from torchrec.modules.embedding_modules import EmbeddingBagCollection

from reference_models.config.sections import TrainConfig
from reference_models.distributed.planner_estimate import (
    DeviceLoad,
    Devices,
    OnProgress,
    PlannerEstimate,
    TablePlacement,
)
from reference_models.distributed.search.costs import Seconds, Sets
from reference_models.distributed.search.task import EmbeddingTable
from reference_models.distributed.sharded_optimizers import fused_parameters
from reference_models.dlrm.config import DLRMConfig
from reference_models.dlrm.sharding import (
    ShardedDLRM,
    feature_name,
    make_constraints,
    make_sharder,
    quiet_torchrec,
    table_index,
    table_name,
)
from reference_models.process.errors import ConfigError

SEARCH_S = 60
"""Seconds for which TorchRec's planner compares plans before it takes the best; 64 devices need only a few
seconds."""


class _ReportingEnumerator(EmbeddingEnumerator):  # type: ignore[misc]
    """TorchRec's enumerator of sharding options that also reports after each table how many tables are done: with
    many devices a table takes seconds."""

    def __init__(self, topology: Topology, batch_size: int, constraints: Any, on_progress: OnProgress | None) -> None:
        super().__init__(topology=topology, batch_size=batch_size, constraints=constraints)
        self._on_progress = on_progress
        self.ended_s = 0.0

    def populate_estimates(self, sharding_options: list[ShardingOption]) -> None:
        by_table: dict[str, list[ShardingOption]] = {}
        for option in sharding_options:
            by_table.setdefault(option.name, []).append(option)
        for number, options in enumerate(by_table.values()):
            super().populate_estimates(options)
            if self._on_progress is not None:
                self._on_progress(number + 1, len(by_table))
        self.ended_s = time.monotonic()


@dataclass(frozen=True, kw_only=True, slots=True)
class EstimatedCost:
    """Function that returns the cost of each set of whole tables on one device, in seconds per step, estimated by
    TorchRec. A set's cost is the sum of its tables' costs, which include the exchange of embeddings."""

    batch_size: int
    """Number of samples of a training step over all devices together."""
    devices: Devices
    known: dict[EmbeddingTable, float] = field(default_factory=dict, repr=False, compare=False)

    def __call__(self, sets: Sets, /) -> Seconds:
        if new := [*dict.fromkeys(table for each in sets for table in each if table not in self.known)]:
            self.known.update(zip(new, self._estimate(new), strict=True))
        return np.array([sum(self.known[table] for table in each) for each in sets], np.float64)

    def _estimate(self, tables: Sequence[EmbeddingTable]) -> list[float]:
        configs = [
            EmbeddingBagConfig(
                name=table_name(number),
                embedding_dim=table.dim,
                num_embeddings=table.num_embeddings,
                feature_names=[feature_name(number)],
            )
            for number, table in enumerate(tables)
        ]
        constraints = {
            table_name(number): ParameterConstraints(
                sharding_types=["table_wise"], compute_kernels=["fused"], pooling_factors=[table.pooling]
            )
            for number, table in enumerate(tables)
        }
        with quiet_torchrec():
            module = EmbeddingBagCollection(tables=configs, device=torch.device("meta"))
            enumerator = EmbeddingEnumerator(
                topology=_describe_devices(self.devices),
                batch_size=max(1, self.batch_size // self.devices.num_devices),
                constraints=constraints,
            )
            options = enumerator.enumerate(module, [make_sharder("table_wise", {}, None)])
        found = {
            table_index(option.name): 1e-3 * sum(each.perf.total for each in option.shards) for option in options
        }
        return [found[number] for number in range(len(tables))]


def _describe_devices(devices: Devices) -> Topology:
    per_ms, is_cuda = 1e-3, devices.device_type == "cuda"
    with quiet_torchrec():
        return Topology(
            world_size=devices.num_devices,
            compute_device=devices.device_type,
            hbm_cap=devices.memory_bytes if is_cuda else None,
            ddr_cap=None if is_cuda else devices.usable_bytes,  # its reserve concerns a GPU's memory alone
            **{("hbm_mem_bw" if is_cuda else "ddr_mem_bw"): devices.memory_bandwidth * per_ms},
            local_world_size=min(devices.devices_per_host, devices.num_devices),
            intra_host_bw=devices.intra_host_bandwidth * per_ms,
            inter_host_bw=devices.inter_host_bandwidth * per_ms,
        )


def plan_for_devices(
    model: DLRMConfig,
    train: TrainConfig,
    num_embeddings: Sequence[int],
    multi_hot: Sequence[int],
    *,
    num_dense: int,
    sharding: str,
    devices: Devices,
    on_progress: OnProgress | None = None,
) -> PlannerEstimate:
    """Return the placement of the model's tables on `devices` by TorchRec's planner, with estimated memory and time.

    Raises ConfigError if the tables do not fit.
    """
    topology = _describe_devices(devices)
    local_batch_size = max(1, train.global_batch_size // devices.num_devices)
    constraints = make_constraints(sharding, model.embedding_dim, devices.num_devices, multi_hot)
    enumerator = _ReportingEnumerator(topology, local_batch_size, constraints, on_progress)
    with quiet_torchrec():
        planner = EmbeddingShardingPlanner(
            topology=topology,
            batch_size=local_batch_size,
            constraints=constraints,
            enumerator=enumerator,
            stats=[],
            timeout_seconds=SEARCH_S,
            storage_reservation=HeuristicalStorageReservation(percentage=devices.reserve),
        )
    try:
        with quiet_torchrec():
            module = ShardedDLRM(model, num_embeddings, train.opt_name, num_dense=num_dense)
            planner.plan(module, [make_sharder(sharding, fused_parameters(train), None)])
    except PlannerError as error:
        need = sum(rows * model.embedding_dim * 4 for rows in num_embeddings)
        is_proved = need > devices.num_devices * devices.usable_bytes
        other = "That proves nothing of other plans. Take 'place --by local'"
        advice = "Take more or larger devices" if is_proved else other
        kept = f", {devices.reserve:.3g} of it kept free," if devices.reserve else ""
        raise ConfigError(
            f"TorchRec's planner finds no plan on {devices.num_devices} devices of "
            f"{devices.memory_bytes / 2**30:.3g} GiB{kept} of tables of {need / 2**30:.3g} GiB of weights, and their "
            f"optimizer's state and buffers, with sharding {sharding!r}. {advice}, or another sharding. It says: "
            f"{str(error).strip().splitlines()[0]}"
        ) from error
    is_search_cut = time.monotonic() - enumerator.ended_s > SEARCH_S
    options: list[ShardingOption] = planner._best_plan
    loads = _list_loads(options, devices)
    slowest_s, mean_s = max(load.step_s for load in loads), sum(load.step_s for load in loads) / len(loads)
    return PlannerEstimate(
        devices=devices,
        sharding=sharding,
        global_batch_size=train.global_batch_size,
        tables=tuple(sorted((_place(option, num_embeddings) for option in options), key=lambda table: table.table)),
        loads=loads,
        step_s=slowest_s,
        balance=slowest_s / mean_s if mean_s else 1.0,
        is_search_cut=is_search_cut,
    )


def _place(option: ShardingOption, num_embeddings: Sequence[int]) -> TablePlacement:
    return TablePlacement(
        table=table_index(option.name),
        num_embeddings=num_embeddings[table_index(option.name)],
        sharding=option.sharding_type,
        kernel=option.compute_kernel,
        devices=tuple(shard.rank for shard in option.shards),
        shard_shapes=tuple((int(shard.size[0]), int(shard.size[1])) for shard in option.shards),
    )


def _list_loads(options: Sequence[ShardingOption], devices: Devices) -> tuple[DeviceLoad, ...]:
    """Return each device's load: memory and time, summed over its shards. A data-parallel table has a shard on every
    device."""
    memory, host_memory = [0] * devices.num_devices, [0] * devices.num_devices
    time_s = [0.0] * devices.num_devices
    is_cuda = devices.device_type == "cuda"
    for shard in (shard for option in options for shard in option.shards):
        memory[shard.rank] += shard.storage.hbm if is_cuda else shard.storage.ddr
        host_memory[shard.rank] += shard.storage.ddr if is_cuda else 0
        time_s[shard.rank] += shard.perf.total * 1e-3
    return tuple(
        DeviceLoad(device=device, memory_bytes=held, host_memory_bytes=held_by_host, step_s=step_s)
        for device, (held, held_by_host, step_s) in enumerate(zip(memory, host_memory, time_s, strict=True))
    )
