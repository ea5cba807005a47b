"""DLRM with its tables sharded over ranks by TorchRec: the model, the plan, the initial weights of each shard.

Dense layers are those of the reference implementation, and every rank holds all of them. Ids are given as bags, one
per feature and sample, and not as the reference's matrix of ids. The module `torchrec` trains the model; `planner`
plans the placement of its tables on devices that need not exist.
"""

import logging
import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed._shard.sharded_tensor.api import ShardedTensor
from torch.nn.functional import pad
from torchrec.distributed.embedding_types import EmbeddingComputeKernel
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.fbgemm_qcomm_codec import CommType, QCommsConfig, get_qcomm_codecs_registry
from torchrec.distributed.planner import EmbeddingShardingPlanner, Topology
from torchrec.distributed.planner.types import ParameterConstraints, PlannerError
from torchrec.distributed.sharding_plan import column_wise, construct_module_sharding_plan, table_wise
from torchrec.distributed.types import ParameterSharding, ShardingPlan, ShardingType
from torchrec.modules.embedding_configs import EmbeddingBagConfig
from torchrec.modules.embedding_modules import EmbeddingBagCollection
from torchrec.optim.rowwise_adagrad import RowWiseAdagrad
from torchrec.sparse.jagged_tensor import KeyedJaggedTensor

from reference_models.config.exchange import SHARDING_TYPES
from reference_models.config.sections import parse_comm, parse_sharding
from reference_models.data.store.dataset import Batch, ClickDataset
from reference_models.distributed.input_ahead import SentIds
from reference_models.distributed.limits import COLUMN_TYPES
from reference_models.distributed.planner_estimate import is_outside_devices
from reference_models.dlrm.config import DLRMConfig
from reference_models.dlrm.model import INITS, build_interaction
from reference_models.layers.mlp import build_mlp
from reference_models.process.errors import ConfigError

SPLIT_TYPES = ("row_wise", "table_row_wise", *COLUMN_TYPES)
"""TorchRec's sharding types that cut a table into shards. If there are several ranks, each table's shards must be on
more than one rank."""
FILLED_UP = 2
"""Label of a padding row, which fills up a batch and is no sample."""
_DRAWN_ROWS = 1 << 18
_PLANNED_OPTIMIZERS = {"sgd": torch.optim.SGD, "adagrad": torch.optim.Adagrad, "rowwise_adagrad": RowWiseAdagrad}


@dataclass(frozen=True, slots=True)
class Shard:
    """Shard of an embedding table: the rows and columns that this rank holds; `weight` is a view of the trained
    tensor."""

    table: int
    weight: torch.Tensor
    first_row: int
    first_column: int

    def describe(self, rank: int) -> dict[str, int]:
        """Return the part of a table that rank `rank` holds (first row, rows, first column, columns), as numbers that
        can be sent to other ranks."""
        num_rows, num_columns = map(int, self.weight.shape)
        return {
            "rank": rank,
            "first_row": self.first_row,
            "num_rows": num_rows,
            "first_column": self.first_column,
            "num_columns": num_columns,
        }


class AllTypesSharder(EmbeddingBagCollectionSharder):  # type: ignore[misc]
    """TorchRec's sharder, except that it allows row-wise sharding on a CPU, where it works."""

    def sharding_types(self, compute_device_type: str) -> list[str]:
        return [kind for kind in SHARDING_TYPES if kind != "auto"]


@contextmanager
def quiet_torchrec() -> Iterator[None]:
    """Silence TorchRec's logs and warnings inside the `with` block: planning and wrapping a model print messages that
    are meant for TorchRec's own developers."""
    # TorchRec's planner writes to the root logger, too.
    loggers = [logging.getLogger("torchrec"), logging.getLogger()]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


def table_name(index: int) -> str:
    return f"table_{index}"


def feature_name(index: int) -> str:
    return f"feature_{index}"


def table_index(name: str) -> int:
    return int(name.removeprefix("table_"))


def build_tables(model: DLRMConfig, num_embeddings: Sequence[int], opt_name: str) -> EmbeddingBagCollection:
    """Return an embedding table per sparse feature, on the meta device: only shards are ever in memory.

    The optimizer's class is set as an attribute of the weights, from which TorchRec's planner computes the size of
    the optimizer state.
    """
    configs = [
        EmbeddingBagConfig(
            name=table_name(index),
            embedding_dim=model.embedding_dim,
            num_embeddings=rows,
            feature_names=[feature_name(index)],
        )
        for index, rows in enumerate(num_embeddings)
    ]
    tables = EmbeddingBagCollection(tables=configs, device=torch.device("meta"))
    for weight in tables.parameters():
        weight._optimizer_classes = [_PLANNED_OPTIMIZERS[opt_name]]
    return tables


class ShardedDLRM(nn.Module):
    """DLRM with its tables in TorchRec's EmbeddingBagCollection; returns loss and logits of this rank's samples."""

    def __init__(self, config: DLRMConfig, num_embeddings: Sequence[int], opt_name: str, *, num_dense: int) -> None:
        super().__init__()
        self.features = [feature_name(index) for index in range(len(num_embeddings))]
        self.tables = build_tables(config, num_embeddings, opt_name)
        self.dense = DenseParts(config, num_dense=num_dense, num_sparse=len(num_embeddings))

    def forward(
        self, dense: torch.Tensor, ids: KeyedJaggedTensor | SentIds, labels: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the mean loss and the logits float [B] of dense [B, num_dense], bags of ids, labels [B].

        Ids that were not yet sent to the ranks that hold their rows are sent now.
        """
        if isinstance(ids, SentIds):
            vectors = self.tables.compute_and_output_dist(ids.context, ids.received)
        else:
            vectors = self.tables(ids)
        # By name: with tables on several ranks, vectors arrive in the order of the ranks.
        pooled = vectors.to_dict()
        logits = self.dense(dense, [pooled[feature] for feature in self.features])
        return nn.functional.binary_cross_entropy_with_logits(logits, labels), logits.detach()


class DenseParts(nn.Module):
    """Parts of DLRM that every rank holds: bottom MLP, interaction and top MLP, whose weights are drawn in DLRM's
    order."""

    def __init__(self, config: DLRMConfig, *, num_dense: int, num_sparse: int) -> None:
        super().__init__()
        init = INITS[config.init]
        self.bottom_mlp = build_mlp(num_dense, config.bottom_mlp, init, ends_in_logit=False)
        self.interaction = build_interaction(config, num_features=1 + num_sparse)
        self.top_mlp = build_mlp(self.interaction.out_features, config.top_mlp, init, ends_in_logit=True)

    def forward(self, dense: torch.Tensor, pooled: Sequence[torch.Tensor]) -> torch.Tensor:
        vectors = torch.stack([self.bottom_mlp(dense), *pooled], dim=1)
        logits: torch.Tensor = self.top_mlp(self.interaction(vectors))
        return logits.squeeze(1).float()


@dataclass(frozen=True, slots=True)
class BagBatch:
    """Batch with its ids in bags (one per sample and feature), as TorchRec's KeyedJaggedTensor."""

    dense: torch.Tensor
    ids: KeyedJaggedTensor
    labels: torch.Tensor

    def to(self, device: torch.device) -> "BagBatch":
        """Return the batch on `device`, copied asynchronously if it is in page-locked memory."""
        return BagBatch(
            self.dense.to(device, non_blocking=True),
            self.ids.to(device, non_blocking=True),
            self.labels.to(device, non_blocking=True),
        )


def make_bags(batch: Batch, lengths: torch.Tensor, multi_hot: Sequence[int], *, pins: bool) -> BagBatch:
    """Return a batch with its ids in bags, ordered by feature, then sample; with `pins` in page-locked memory.

    `lengths` int32 [F x B] are the numbers of ids of the bags, and may be on the device already. Call this in the
    thread that reads data, not in the training thread: transposing the ids takes as long as a small model's step on a
    GPU.
    """
    num_samples = len(batch.labels)
    values = torch.cat([ids.flatten() for ids in torch.split(batch.indices, list(multi_hot), dim=1)])
    bags = KeyedJaggedTensor(
        keys=[feature_name(index) for index in range(len(multi_hot))],
        values=values.pin_memory() if pins else values,
        lengths=lengths,
        stride=num_samples,
        length_per_key=[num_ids * num_samples for num_ids in multi_hot],
    )
    dense, labels = (part.pin_memory() if pins else part for part in (batch.dense, batch.labels))
    return BagBatch(dense, bags, labels)


def fill_up(batch: Batch | None, split: ClickDataset, num_rows: int) -> Batch:
    """Return `batch`, which may be None, filled up to `num_rows` with padding rows: label FILLED_UP, all else
    zero."""
    if batch is None:
        lookups = torch.zeros(0, sum(split.multi_hot), dtype=torch.int64)
        batch = Batch(torch.zeros(0, split.num_dense), lookups, torch.zeros(0))
    num_missing = num_rows - len(batch.labels)
    if num_missing == 0:
        return batch
    return Batch(
        pad(batch.dense, (0, 0, 0, num_missing)),
        pad(batch.indices, (0, 0, 0, num_missing)),
        pad(batch.labels, (0, num_missing), value=float(FILLED_UP)),
    )


def make_codecs(comm: str, device: torch.device) -> dict[str, Any] | None:
    """Return TorchRec's codecs that compress embeddings and their gradients between ranks, as `runtime.comm` says.

    Returns None where both are sent uncompressed, in fp32.
    """
    forward, backward = parse_comm(comm)
    if forward == backward == "fp32":
        return None
    config = QCommsConfig(forward_precision=CommType(forward), backward_precision=CommType(backward))
    codecs: dict[str, Any] = get_qcomm_codecs_registry(config, device=device)
    return codecs


def make_sharder(
    sharding: str, fused_params: dict[str, Any], codecs: dict[str, Any] | None
) -> EmbeddingBagCollectionSharder:
    """Return TorchRec's sharder of tables; with `auto` it may choose among the sharding types that TorchRec has on
    this device."""
    kind = EmbeddingBagCollectionSharder if sharding == "auto" else AllTypesSharder
    return kind(fused_params=fused_params, qcomm_codecs_registry=codecs)


def topology_here(device: torch.device, num_ranks: int, local_ranks: int) -> Topology:
    """Return TorchRec's description of the ranks' devices (memory, bandwidth), all equal to this rank's device.

    By default TorchRec assumes GPUs of 32 GiB and constant links. This function reads a GPU's memory and bandwidth
    from the driver; links stay TorchRec's constants. A GPU gets no host memory to put tables into: fetching rows from
    host memory in each step is many times slower than from the GPU's own, and a run would measure the bus.
    """
    if device.type == "cpu":
        return Topology(num_ranks, "cpu", local_world_size=local_ranks)
    facts = torch.cuda.get_device_properties(device)
    # Two transfers per clock; kHz times bytes are bytes per ms. CUDA may not report the clock.
    bytes_per_ms = 2 * getattr(facts, "memory_clock_rate", 0) * getattr(facts, "memory_bus_width", 0) // 8
    return Topology(
        num_ranks,
        "cuda",
        local_world_size=local_ranks,
        hbm_cap=facts.total_memory,
        ddr_cap=1,  # one byte: torchrec 1.6 takes 0 for a missing value, and plans with 128 GB
        **({"hbm_mem_bw": bytes_per_ms} if bytes_per_ms else {}),
    )


def make_plan(
    module: ShardedDLRM,
    sharder: EmbeddingBagCollectionSharder,
    topology: Topology,
    *,
    sharding: str,
    embedding_dim: int,
    multi_hot: Sequence[int],
    local_batch_size: int,
) -> ShardingPlan:
    """Return the sharding plan of the tables: the plan that `sharding` spells out (the ranks of each table), or a
    plan that rank 0 makes for all ranks by TorchRec's planner.

    If `sharding` is a sharding type, the planner gives it to every table; if it is `auto`, the planner chooses a type
    for each table.

    Raises ConfigError if TorchRec's planner cannot place the tables.
    """
    if (given := parse_sharding(sharding)) is not None:
        fused = EmbeddingComputeKernel.FUSED.value
        placed = {
            table_name(table): table_wise(ranks[0], compute_kernel=fused)
            if len(ranks) == 1
            else column_wise(list(ranks), compute_kernel=fused)
            for table, ranks in enumerate(given)
        }
        size, local_size = topology.world_size, topology.local_world_size
        of = construct_module_sharding_plan(module.tables, placed, sharder, local_size, size, topology.compute_device)
        return ShardingPlan({"tables": of})
    planner = EmbeddingShardingPlanner(
        topology=topology,
        batch_size=local_batch_size,
        constraints=make_constraints(sharding, embedding_dim, topology.world_size, multi_hot),
    )
    try:
        if dist.is_initialized() and dist.get_world_size() == topology.world_size:
            return planner.collective_plan(module, [sharder], dist.GroupMember.WORLD)
        return planner.plan(module, [sharder])
    except PlannerError as error:
        first, held = str(error).strip().splitlines()[0], topology.devices[0].storage.hbm
        of = f" of {held / 2**30:.3g} GiB" if held else ""
        raise ConfigError(
            f"runtime.sharding {sharding!r}: the tables cannot be laid over {topology.world_size} devices{of}: "
            f"{first}"
        ) from error


def make_constraints(
    sharding: str, embedding_dim: int, num_devices: int, multi_hot: Sequence[int]
) -> dict[str, ParameterConstraints]:
    """Return constraints for TorchRec's planner: each table's requested sharding type, and its ids per bag.

    Column-wise types cut the embedding dimension into one part for each device. The columns of a part are a multiple
    of 4, as FBGEMM's rows need. TorchRec's own minimum of 128 columns per part would leave smaller dimensions uncut.
    """
    is_column = sharding in COLUMN_TYPES
    width = max(4, math.ceil(embedding_dim / num_devices / 4) * 4)
    return {
        table_name(index): ParameterConstraints(
            sharding_types=None if sharding == "auto" else [ShardingType(sharding).value],
            min_partition=width if is_column else None,
            pooling_factors=[float(num_ids)],
        )
        for index, num_ids in enumerate(multi_hot)
    }


def check_plan(plan: ShardingPlan, sharding: str, num_ranks: int) -> None:
    """Raise ConfigError if a plan places a table outside of device memory, or leaves a table whole that the sharding
    type `sharding` should cut."""
    tables = find_planned_tables(plan)
    if outside := [name for name, entry in tables.items() if is_outside_devices(entry.compute_kernel)]:
        raise ConfigError(
            f"runtime.sharding {sharding!r}: the planner leaves {len(outside)} of {len(tables)} tables "
            f"({', '.join(outside[:3])}) outside of the devices' memory, by kernel "
            f"{tables[outside[0]].compute_kernel}. Use more or larger GPUs, or an optimizer with less state."
        )
    if sharding not in SPLIT_TYPES or num_ranks == 1:
        return
    whole = [name for name, entry in tables.items() if len(set(entry.ranks or [])) < 2]
    # table_row_wise cuts within a node, which may have one rank; table_column_wise distributes whole columns.
    if whole:
        raise ConfigError(
            f"runtime.sharding {sharding!r} leaves {', '.join(whole[:3])} on one of {num_ranks} ranks. "
            "Use table_wise, or a larger embedding_dim."
        )


def find_planned_tables(plan: ShardingPlan) -> dict[str, ParameterSharding]:
    """Return a sharding plan's tables by name: each one's sharding type, and the ranks of its shards or copies."""
    return {name: entry for tables in plan.plan.values() for name, entry in tables.items()}


def local_shards(state: dict[str, Any]) -> list[Shard]:
    """Return the table shards of this rank from a sharded model's `state_dict()`, in the order of tables."""
    shards = []
    for name, value in state.items():
        if ".table_" not in name or not name.endswith(".weight"):
            continue
        table = int(name.removesuffix(".weight").rsplit("_", 1)[1])
        if isinstance(value, ShardedTensor):
            for shard in value.local_shards():
                row, column = shard.metadata.shard_offsets
                shards.append(Shard(table, shard.tensor.detach(), int(row), int(column)))
        else:
            shards.append(Shard(table, value.detach(), 0, 0))
    return sorted(shards, key=lambda shard: (shard.table, shard.first_row, shard.first_column))


@torch.no_grad()
def draw_tables(
    shards: Sequence[Shard],
    num_embeddings: Sequence[int],
    embedding_dim: int,
    device: torch.device,
    generator: torch.Generator | None = None,
) -> None:
    """Fill the table shards of this rank with initial weights, drawn table by table from the distribution of
    `build_embedding_bag`.

    Every rank draws all rows on its device, a piece at a time, and stores only the rows of its shards. So no rank
    ever holds a whole table, and every sharding begins with the same weights. On a CPU the weights equal the
    reference's. On a GPU they differ, since a GPU's generator draws pieces differently from whole tables.

    `generator` must be in the same state on all ranks. By default it is torch's generator of the device, which is so
    only on CPUs.
    """
    for table, rows in enumerate(num_embeddings):
        bound = 1 / math.sqrt(rows)
        mine = [shard for shard in shards if shard.table == table]
        for first in range(0, rows, _DRAWN_ROWS):
            drawn = torch.empty(min(_DRAWN_ROWS, rows - first), embedding_dim, device=device)
            drawn.uniform_(-bound, bound, generator=generator)
            for shard in mine:
                _copy_overlap(shard, drawn, first)


def _copy_overlap(shard: Shard, drawn: torch.Tensor, first: int) -> None:
    num_rows, num_columns = shard.weight.shape
    begin = max(first, shard.first_row)
    end = min(first + len(drawn), shard.first_row + num_rows)
    if begin < end:
        columns = slice(shard.first_column, shard.first_column + num_columns)
        shard.weight[begin - shard.first_row : end - shard.first_row] = drawn[begin - first : end - first, columns]
