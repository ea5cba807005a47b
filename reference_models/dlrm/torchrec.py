"""Implementation of DLRM by TorchRec: tables are sharded over ranks, all other weights are on every rank.

The dense part is the reference's own code and every sharding begins with the weights that the reference draws on a
CPU, so that one rank and many compute the same. On GPUs the reference draws other weights, from CUDA's generator.
This module has not been run on a GPU. Each rank reads its part of every batch.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any, TypeVar, cast

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import HashStore
from torch.nn.parallel import DistributedDataParallel
from torchrec.distributed.model_parallel import DistributedModelParallel
from torchrec.distributed.types import ShardingEnv, ShardingType

from reference_models.data.store.dataset import Batch, ClickDataset, has_soft_labels
from reference_models.distributed.gradient_compression import register_gradient_compression
from reference_models.distributed.input_ahead import InputAhead, Turn, with_following
from reference_models.distributed.limits import refuse_impossible_ranks
from reference_models.distributed.planner_estimate import describe_sharding
from reference_models.distributed.sharded_optimizers import (
    FusedTablesOptimizer,
    build_replicated_optimizer,
    fused_parameters,
)
from reference_models.distributed.traffic import (
    Carries,
    CollectiveCounter,
    Traffic,
    TrafficTimes,
    gather_traffic,
    measure_bandwidth,
    now_s,
)
from reference_models.dlrm.sharding import (
    FILLED_UP,
    BagBatch,
    DenseParts,
    ShardedDLRM,
    check_plan,
    draw_tables,
    fill_up,
    find_planned_tables,
    local_shards,
    make_bags,
    make_codecs,
    make_plan,
    make_sharder,
    quiet_torchrec,
    table_index,
    table_name,
    topology_here,
)
from reference_models.process.errors import ConfigError, DatasetError, NotFiniteError
from reference_models.training.device_metrics import roc_auc_of_tensors
from reference_models.training.devices import count_local_ranks
from reference_models.training.loop import WARM_UP_ROWS, WARM_UP_STEPS, TrainingLoop
from reference_models.training.optimizers import build_dense_optimizer
from reference_models.training.phases import Enter
from reference_models.training.read_ahead import read_ahead

T = TypeVar("T")
_MAX_INT32 = 2**31 - 1


class TorchRecWorkload(TrainingLoop):
    """Workload that trains a DLRM with tables sharded over all ranks; every rank makes the same calls in the same
    order."""

    name = "torchrec"
    sharding_types: dict[str, str]
    """Sharding type of each table, by table name, in the sharding plan (the user's own plan, or that of TorchRec's
    planner)."""
    _collectives: CollectiveCounter | None = None
    _ahead: InputAhead[BagBatch] | None = None

    # building

    def check_world(self) -> None:
        spec = self.spec
        refuse_impossible_ranks(spec.train, spec.runtime, self.world.size)
        if not dist.is_initialized():
            # A single process, but DistributedModelParallel requires a process group.
            backend = "gloo" if spec.runtime.device == "cpu" else "cpu:gloo,cuda:nccl"
            dist.init_process_group(backend, store=HashStore(), rank=0, world_size=1)

    def build_model(self, num_embeddings: tuple[int, ...]) -> tuple[Any, list[torch.optim.Optimizer]]:
        model, train = self.spec.model, self.data.train
        generator = torch.get_rng_state()
        made = ShardedDLRM(model, num_embeddings, self.spec.train.opt_name, num_dense=train.num_dense)
        with quiet_torchrec():
            sharded = self._shard(made)
        torch.set_rng_state(generator)
        seed = torch.initial_seed()
        alike = None if self.device.type == "cpu" else torch.Generator(self.device).manual_seed(seed)
        draw_tables(local_shards(sharded.state_dict()), num_embeddings, model.embedding_dim, self.device, alike)
        drawn = DenseParts(model, num_dense=train.num_dense, num_sparse=len(num_embeddings))
        made.dense.load_state_dict(drawn.state_dict())
        return sharded, self._optimizers_of(sharded, made)

    def _shard(self, made: ShardedDLRM) -> DistributedModelParallel:
        spec, size = self.spec, self.world.size
        codecs = make_codecs(spec.runtime.comm, self.device)
        sharder = make_sharder(spec.runtime.sharding, fused_parameters(spec.train), codecs)
        plan = make_plan(
            made,
            sharder,
            topology_here(self.device, size, count_local_ranks(size)),
            sharding=spec.runtime.sharding,
            embedding_dim=spec.model.embedding_dim,
            multi_hot=self.data.train.multi_hot,
            local_batch_size=self.local_batch_size,
        )
        check_plan(plan, spec.runtime.sharding, size)
        self.sharding_types = {name: str(entry.sharding_type) for name, entry in find_planned_tables(plan).items()}
        self._kernels = {
            table_index(name): str(entry.compute_kernel) for name, entry in find_planned_tables(plan).items()
        }
        group = dist.GroupMember.WORLD
        assert group is not None
        sharded = DistributedModelParallel(
            made, env=ShardingEnv.from_process_group(group), device=self.device, plan=plan, sharders=[sharder]
        )
        replicas = sharded._dmp_wrapped_module  # DistributedDataParallel, which averages the dense weights' gradients
        assert isinstance(replicas, DistributedDataParallel)
        register_gradient_compression(replicas, spec.runtime.grad_comm)
        return sharded

    def _optimizers_of(self, sharded: DistributedModelParallel, made: ShardedDLRM) -> list[torch.optim.Optimizer]:
        """Return the optimizers in this order: that of sharded tables, whose updates FBGEMM runs inside the backward
        pass; that of replicated tables, if there are any; that of the dense weights."""
        train = self.spec.train
        parameters = {name.split(".")[-2]: p for name, p in sharded.named_parameters() if ".table_" in name}
        replicated = [
            parameters[table]
            for table, kind in self.sharding_types.items()
            if kind == ShardingType.DATA_PARALLEL.value
        ]
        return [
            # It has the members of an optimizer that are used: groups, zero_grad, step, state_dict.
            cast(torch.optim.Optimizer, FusedTablesOptimizer(sharded, train)),
            *([build_replicated_optimizer(train, replicated)] if replicated else []),
            build_dense_optimizer(train, list(made.dense.parameters())),
        ]

    def build(self) -> None:
        self._held_lengths: dict[int, torch.Tensor] = {}
        super().build()
        self._refuse_unlike_replicas()
        self._ahead = InputAhead(self.model.module.tables, self.device) if self._sends_ahead() else None

    def _refuse_unlike_replicas(self) -> None:
        """Raise RuntimeError on every rank if copies of replicated tables are not equal before training: they would
        stay different."""
        with quiet_torchrec():
            shards = local_shards(self.model.state_dict())
        sums = {
            shard.table: int(shard.weight.view(torch.int32).sum(dtype=torch.int64))
            for shard in shards
            if self.sharding_types[table_name(shard.table)] == ShardingType.DATA_PARALLEL.value
        }
        by_rank = self.world.gather(sums)
        if self.world.broadcast(None if by_rank is None else any(other != sums for other in by_rank)):
            raise RuntimeError(
                "tables that every rank holds do not begin alike on all of them: a defect of dlrmbench."
            )

    def _sends_ahead(self) -> bool:
        """Return whether the next batch's ids are sent to other ranks during a step: only between GPUs, since on CPUs
        it would be slower."""
        return self.device.type == "cuda" and self.world.size > 1

    # hyperparameters, read from what `build` made

    @property
    def local_batch_size(self) -> int:
        return self.global_batch_size // self.world.size

    def hyperparameters(self) -> Mapping[str, int | float | str]:
        runtime = self.spec.runtime
        return {
            **super().hyperparameters(),
            "local_batch_size": self.local_batch_size,
            "sharding": describe_sharding(runtime.sharding, self.sharding_types),
            "comm": runtime.comm,
            "grad_comm": runtime.grad_comm,
        }

    # the run

    def warm_up(self) -> None:
        """Train a copy of the model with small tables on a synthetic batch of this rank's size, to warm up; ranks
        communicate in the process groups that the run then uses."""
        split, size = self.data.train, self.world.size
        num_embeddings = tuple(min(rows, WARM_UP_ROWS * size) for rows in split.num_embeddings)
        model, optimizers = self.build_model(num_embeddings)
        batch = self._put_into_bags(Batch.synthetic(split, num_embeddings, self.local_batch_size))
        with quiet_torchrec():
            for _ in range(WARM_UP_STEPS):
                self.train_step(model, optimizers, batch)
        self.synchronize()

    def train_step(self, model: Any, optimizers: list[torch.optim.Optimizer], batch: Any) -> torch.Tensor:
        for optimizer in optimizers:
            optimizer.zero_grad()
        cast(FusedTablesOptimizer, optimizers[0]).prepare()
        if isinstance(batch, Turn):
            loss = self._forward_turn(model, batch)
        else:
            loss, _ = self._forward(model, batch)
        with self._collectives.during(Carries.BACKWARD) if self._collectives is not None else nullcontext():
            loss.backward()  # type: ignore[no-untyped-call]
        for optimizer in optimizers:
            optimizer.step()
        return loss.detach()

    def _forward(self, model: Any, batch: BagBatch) -> tuple[torch.Tensor, torch.Tensor]:
        here = batch.to(self.device)
        with self.autocast():
            loss, logits = model(here.dense, here.ids, here.labels)
        return loss, logits

    def _forward_turn(self, model: Any, turn: Turn[BagBatch]) -> torch.Tensor:
        """Return the loss of the current batch, while the next batch's ids are sent to the ranks of their rows."""
        assert self._ahead is not None
        given = self._ahead.take(turn.batch)
        if turn.following is not None:
            self._ahead.start(turn.following)
        with self.autocast():
            loss, _ = model(*given)
        self._ahead.send()
        return cast(torch.Tensor, loss)

    def _put_into_bags(self, batch: Batch) -> BagBatch:
        batch = Batch(batch.dense, batch.indices.to(self._id_type), batch.labels)
        lengths = self._lengths(len(batch.labels))
        return make_bags(batch, lengths, self.data.train.multi_hot, pins=self.device.type == "cuda")

    @property
    def _id_type(self) -> torch.dtype:
        """Integer type of the ids that ranks send: int32 on a GPU if all tables' ids fit, which halves the bytes;
        else int64."""
        fits = self.device.type == "cuda" and max(self.data.train.num_embeddings) <= _MAX_INT32
        return torch.int32 if fits else torch.int64

    def _lengths(self, num_samples: int) -> torch.Tensor:
        """Return the number of ids of each bag of `num_samples` samples, int32 on the device; equal for every
        batch."""
        if num_samples not in self._held_lengths:
            multi_hot = torch.tensor(self.data.train.multi_hot, dtype=torch.int32)
            self._held_lengths[num_samples] = multi_hot.repeat_interleave(num_samples).to(self.device)
        return self._held_lengths[num_samples]

    def read_batch(self, split: ClickDataset, name: str, start: int, stop: int) -> Batch:
        batch = Batch.empty(split, stop - start, has_int32_ids=self._id_type == torch.int32)
        split.read_into(start, stop, batch)
        batch.check(split, f"{self.spec.data_dir}: {name} sample", start)
        return batch

    def compute_logits(self, model: Any, batch: Any) -> torch.Tensor:
        return self._forward(model, batch)[1]

    def check_loss(self, total_loss: torch.Tensor) -> None:
        """Raise NotFiniteError on all ranks together if the sum of all ranks' losses is not finite."""
        dist.all_reduce(total_loss)
        super().check_loss(total_loss)

    def read_batches(self, split: ClickDataset, name: str, starts: range, batch_size: int) -> Iterator[Any]:
        """Yield this rank's part of each batch, with ids in bags, padded with zeros if the split's end leaves fewer
        samples.

        All ranks must have equally many samples, since tables are looked up for all ranks together.
        """
        num_rows = -(-batch_size // self.world.size)
        self._lengths(num_rows)  # copied to the device by this thread, not by the reading thread

        def read(start: int) -> BagBatch:
            first = start + self.world.rank * num_rows
            stop = min(first + num_rows, start + batch_size, split.num_samples)
            batch = self.read_batch(split, name, first, stop) if first < stop else None
            return self._put_into_bags(fill_up(batch, split, num_rows))

        batches = read_ahead(read, starts)
        # A single batch is a measurement of one step's exchanges.
        yield from with_following(batches) if self._ahead and name == "train" and len(starts) > 1 else batches

    def evaluate(self) -> float:
        """Return the quality metric of the evaluation split; between GPUs scores are sent by NCCL, and sorted on rank
        0's GPU."""
        if not self.sorts_on_device:
            return super().evaluate()
        return self._judge(lambda labels, scores: roc_auc_of_tensors(labels != 0, scores), self.device)

    def evaluate_with(self, metric: Callable[[Any, Any], T]) -> T:
        return self._judge(lambda labels, scores: metric(labels.numpy(), scores.numpy()), torch.device("cpu"))

    def _judge(self, metric: Callable[[torch.Tensor, torch.Tensor], T], where: torch.device) -> T:
        """Return what `metric` returns for the labels and scores of the whole evaluation split: rank 0 computes it on
        the device `where`, from all ranks' scores, and broadcasts it."""
        starts = range(0, self.eval_samples, self.spec.train.eval_batch_size)
        self.model.eval()
        scores, labels = [], []
        is_soft = has_soft_labels(self.data.eval)
        with torch.no_grad():
            for batch in self.read_batches(self.data.eval, "eval", starts, self.spec.train.eval_batch_size):
                scores.append(self.compute_logits(self.model, batch).to(where))
                labels.append(batch.labels if is_soft else batch.labels.to(torch.uint8))
        all_scores, all_labels = self._gather(torch.cat(scores)), self._gather(torch.cat(labels).to(where))
        judged: T | Exception | None = None
        if self.world.rank == 0:
            is_sample = all_labels != FILLED_UP
            try:
                judged = metric(all_labels[is_sample], all_scores[is_sample])
            except (NotFiniteError, DatasetError) as error:
                judged = error
        outcome = self.world.broadcast(judged)
        if isinstance(outcome, Exception):
            raise outcome
        return cast(T, outcome)

    def _gather(self, values: torch.Tensor) -> torch.Tensor:
        """Return the values of all ranks, concatenated, on rank 0; on other ranks this rank's own values."""
        is_first = self.world.rank == 0
        received = [torch.empty_like(values) for _ in range(self.world.size)] if is_first else None
        dist.gather(values, received)
        return torch.cat(received) if received is not None else values

    # for the harness and for tests

    @contextmanager
    def report_phases(self, enter: Enter) -> Iterator[None]:
        raise ConfigError("implementation 'torchrec' does not report its phases; profile 'reference' or 'optimized'.")
        yield

    def measure_traffic(self, num_steps: int, *, with_evaluation: bool = True) -> Traffic:
        """Return bytes and seconds of ranks' collective calls, over `num_steps` pairs of steps and one evaluation.

        Call it after the run: the steps train the weights further, each on the epoch's first batch. In each pair one
        step is timed as a whole and the other is counted call by call. They alternate so that both meet the same
        noise of the machine. Each step sends the ids of its own batch, whereas a step of the run sends those of the
        next.
        """
        (batch,) = self.read_batches(self.data.train, "train", range(1), self.global_batch_size)
        self.model.train()
        self._timed_step(batch)
        steps = CollectiveCounter(self.world.rank, self.world.size, self.device)
        rounds = []
        for _ in range(num_steps):
            step_s = self._timed_step(batch)
            before = dict(steps.duration_s)
            self._collectives = steps
            with steps:
                self.train_step(self.model, self.optimizers, batch)
            self._collectives = None
            waited = {kind: steps.duration_s[kind] - before.get(kind, 0.0) for kind in ("all_to_all", "all_reduce")}
            rounds.append(TrafficTimes(step_s, waited["all_to_all"], waited["all_reduce"]))
        evaluation = CollectiveCounter(self.world.rank, self.world.size, self.device) if with_evaluation else None
        if evaluation is not None:
            with evaluation:
                self.evaluate()
        return gather_traffic(
            self.world,
            steps,
            evaluation,
            rounds=rounds,
            bandwidth=measure_bandwidth(self.world, self.device),
            placement=self._placement(),
        )

    def _placement(self) -> list[dict[str, Any]]:
        """Return each table's sharding type, kernel, and shards (rank, rows, columns), as TorchRec has built them;
        the shards of all ranks are known on rank 0 only."""
        with quiet_torchrec():
            mine = local_shards(self.model.state_dict())
        rank = self.world.rank
        gathered = self.world.gather([(shard.table, shard.describe(rank)) for shard in mine]) or []
        types = {table_index(name): kind for name, kind in self.sharding_types.items()}
        return [
            {
                "table": table,
                "sharding": types[table],
                "kernel": self._kernels[table],
                "shards": [shard for shards in gathered for of, shard in shards if of == table],
            }
            for table in sorted(types)
        ]

    def weights(self) -> dict[str, torch.Tensor] | None:
        """Return the weights on rank 0, with all ranks' table shards joined, under DLRM's names; None on other
        ranks."""
        with quiet_torchrec():
            state = self.model.state_dict()
        mine = [
            (shard.table, shard.first_row, shard.first_column, shard.weight.cpu()) for shard in local_shards(state)
        ]
        gathered = self.world.gather(mine)
        if gathered is None:
            return None
        sizes, dim = self.data.train.num_embeddings, self.spec.model.embedding_dim
        tables = [torch.empty(rows, dim) for rows in sizes]
        for table, row, column, weight in (shard for shards in gathered for shard in shards):
            tables[table][row : row + weight.shape[0], column : column + weight.shape[1]] = weight
        dense = {name.partition("dense.")[2]: value for name, value in state.items() if name.startswith("dense.")}
        return {**{f"embedding_bags.{index}.weight": table for index, table in enumerate(tables)}, **dense}

    def _timed_step(self, batch: BagBatch) -> float:
        """Return the seconds of a training step on `batch` that all ranks begin together."""
        self.synchronize()
        self.world.barrier()
        started_s = time.perf_counter()
        self.train_step(self.model, self.optimizers, batch)
        return now_s(self.device) - started_s
