"""The torchrec implementation on GPUs, as far as a CPU shows it: what its planner knows, who makes its bags."""

import importlib.util
import threading
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from emulated_cuda import WAITS_OR_MAKES_SHAPES, emulate_cuda
from torch.utils._python_dispatch import TorchDispatchMode

from harness.config.catalog import load_entry
from reference_models.data.store.dataset import Batch
from reference_models.process.errors import ConfigError

pytestmark = [
    pytest.mark.numeric,
    pytest.mark.skipif(
        not all(importlib.util.find_spec(name) for name in ("torchrec", "fbgemm_gpu")),
        reason="needs torchrec: pip install --no-deps -r reference_models/dlrm/requirements/torchrec-cpu.txt",
    ),
    pytest.mark.filterwarnings("ignore"),  # of importing it, once per process
]


def quiet_torchrec() -> AbstractContextManager[None]:
    from reference_models.dlrm import sharding

    return sharding.quiet_torchrec()


@pytest.mark.slow
@pytest.mark.parametrize("gib", [80, 141])
def test_the_planner_knows_the_memory_of_the_gpus_that_are_here(gib: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Full-size DLRM-DCNv2, 104.5 GB of tables: on one H200 all are on the GPU, on an H100 it is refused."""
    from reference_models.dlrm import torchrec
    from reference_models.dlrm.sharding import ShardedDLRM, check_plan, find_planned_tables

    facts = SimpleNamespace(total_memory=gib << 30, memory_clock_rate=2_619_000, memory_bus_width=5120)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: facts)
    workload = load_entry("dlrm_dcnv2").workload
    spec = workload.spec(Path(), seed=0)
    spec = replace(spec, train=replace(spec.train, opt_name="rowwise_adagrad", global_batch_size=65536))
    data = spec.data
    rows = data.num_embeddings
    with torch.device("meta"):
        made = ShardedDLRM(spec.model, rows, spec.train.opt_name, num_dense=data.num_dense)
    planned: list[Any] = []

    def stop(plan: Any, *args: object) -> None:
        planned.append(plan)
        raise KeyError("planned")

    monkeypatch.setattr(torchrec, "check_plan", stop)
    loop: Any = SimpleNamespace(
        spec=spec,
        world=SimpleNamespace(size=1),
        device=torch.device("cuda", 0),
        data=SimpleNamespace(train=data),
        local_batch_size=65536,
    )
    with quiet_torchrec(), pytest.raises(KeyError if gib > 100 else ConfigError, match=f"planned|{gib} GiB"):
        torchrec.TorchRecWorkload._shard(loop, made)
    for plan in planned:
        check_plan(plan, "auto", 1)
        assert {entry.compute_kernel for entry in find_planned_tables(plan).values()} == {"dense", "fused"}
        entry = find_planned_tables(plan)["table_0"]
        monkeypatch.setattr(entry, "compute_kernel", "fused_uvm_caching")
        with pytest.raises(ConfigError, match=r"1 of 26 tables \(table_0\) outside of the devices' memory"):
            check_plan(plan, "auto", 1)


@pytest.mark.slow
def test_the_planner_is_given_the_gpus_capacity_and_bandwidth(monkeypatch: pytest.MonkeyPatch) -> None:
    from reference_models.dlrm.sharding import topology_here

    facts = SimpleNamespace(total_memory=141 << 30, memory_clock_rate=2_619_000, memory_bus_width=5120)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: facts)
    with quiet_torchrec():
        topology = topology_here(torch.device("cuda", 1), 16, 8)
    assert {(device.storage.hbm, device.storage.ddr) for device in topology.devices} == {(141 << 30, 1)}, (
        "no room beside it"
    )
    assert topology.hbm_mem_bw * 1e3 == pytest.approx(3.352e12, rel=1e-3), "bytes per s, as an H100's HBM3"
    assert (topology.world_size, topology.local_world_size) == (16, 8)


@pytest.mark.slow
def test_ids_are_put_into_page_locked_bags_by_the_thread_that_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Transposing and pinning a batch in a GPU's step would keep the GPU waiting."""
    from reference_models.dlrm.torchrec import TorchRecWorkload

    pinned_by: list[str] = []

    def pin_memory(tensor: Any) -> Any:
        pinned_by.append(threading.current_thread().name)
        return tensor.clone()

    monkeypatch.setattr(torch.Tensor, "pin_memory", pin_memory)
    split = SimpleNamespace(multi_hot=(1, 2), num_dense=1, num_samples=20, num_embeddings=(20, 300))

    def read(of: Any, name: str, start: int, stop: int) -> Batch:
        rows = torch.arange(start, stop).unsqueeze(1)
        return Batch(rows.float(), torch.cat([rows, 100 + rows, 200 + rows], dim=1), torch.ones(stop - start))

    loop: Any = object.__new__(TorchRecWorkload)
    loop.world, loop.device = SimpleNamespace(rank=1, size=2), torch.device("cuda", 1)
    loop.data, loop.read_batch = SimpleNamespace(train=split), read
    loop._held_lengths = {4: torch.tensor([1] * 4 + [2] * 4)}  # as on the device
    batches = list(loop.read_batches(split, "train", range(0, 20, 8), 8))
    assert [list(batch.ids.lengths()) for batch in batches] == [[1] * 4 + [2] * 4] * 3
    assert batches[0].ids.values().tolist() == [4, 5, 6, 7, 104, 204, 105, 205, 106, 206, 107, 207]
    assert batches[2].labels.tolist() == [2, 2, 2, 2], "the second rank has nothing of the last one"
    assert {batch.ids.values().dtype for batch in batches} == {torch.int32}
    assert all(batch.ids.lengths() is loop._held_lengths[4] for batch in batches), "made once, and not sent again"
    assert len(pinned_by) == 3 * 3 and all(name.startswith("read-ahead") for name in pinned_by)


class NotedTables:
    """A sharded module that notes what it is asked for, on which stream, and by whom its parts are used."""

    def __init__(self, noted: list[str], streams: list[str]) -> None:
        self._noted, self._streams = noted, streams

    def note(self, what: str) -> None:
        self._noted.append(f"{what} on {self._streams[-1]}")

    def part(self, name: str, wait: Any = None) -> Any:
        def waited() -> Any:
            self.note(f"wait for {name}")
            return wait

        return SimpleNamespace(wait=waited, record_stream=lambda stream: self.note(f"{name} used by {stream.name}"))

    def create_context(self) -> Any:
        return self.part("context")

    def input_dist(self, context: object, ids: str) -> Any:
        self.note(f"counts of {ids}")
        return self.part(f"counts of {ids}", self.part(f"ids of {ids}", self.part(f"received {ids}")))


def test_ids_travel_on_a_stream_of_their_own_before_their_step(monkeypatch: pytest.MonkeyPatch) -> None:
    from reference_models.distributed.input_ahead import InputAhead, with_following

    noted: list[str] = []
    streams = ["main"]
    tables = NotedTables(noted, streams)

    @contextmanager
    def stream(of: Any) -> Any:
        streams.append(of.name)
        yield
        streams.pop()

    main = SimpleNamespace(name="main", wait_stream=lambda other: noted.append(f"main waits for {other.name}"))
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: SimpleNamespace(name="side"))
    monkeypatch.setattr(torch.cuda, "stream", stream)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: main)

    def batch(name: str) -> Any:
        def to(device: torch.device) -> Any:
            tables.note(f"copy {name}")
            return SimpleNamespace(dense=tables.part("dense"), ids=name, labels=tables.part("labels"))

        return SimpleNamespace(to=to)

    ahead: InputAhead[Any] = InputAhead(tables, torch.device("cuda", 0))
    for turn in with_following([batch("a"), batch("b")]):
        ahead.take(turn.batch)
        if turn.following is not None:
            ahead.start(turn.following)
        noted.append("forward")
        ahead.send()
    assert noted == [
        *("copy a on side", "counts of a on side", "wait for counts of a on side", "wait for ids of a on side"),
        "main waits for side",
        *("dense used by main on main", "labels used by main on main"),
        *("received a used by main on main", "context used by main on main"),
        *("copy b on side", "counts of b on side", "forward", "wait for counts of b on side"),
        *("wait for ids of b on side", "main waits for side"),
        *("dense used by main on main", "labels used by main on main"),
        *("received b used by main on main", "context used by main on main"),
        "forward",
    ]


def test_ids_are_sent_ahead_between_gpus_alone() -> None:
    from reference_models.dlrm.torchrec import TorchRecWorkload

    loop: Any = object.__new__(TorchRecWorkload)
    for device, size, expected in (("cuda", 2, True), ("cuda", 1, False), ("cpu", 2, False)):
        loop.device, loop.world = torch.device(device), SimpleNamespace(size=size)
        assert loop._sends_ahead() is expected


def test_tables_of_a_rank_do_not_depend_on_what_its_device_has_drawn_before() -> None:
    """The device's generator has moved on by the tables that TorchRec made on the rank: by others on each."""
    from reference_models.dlrm.sharding import Shard, draw_tables

    drawn = []
    for spoilt in (1, 2):
        torch.manual_seed(spoilt)
        shard = Shard(table=1, weight=torch.empty(30, 4), first_row=0, first_column=0)
        draw_tables([shard], (10, 30), 4, torch.device("cpu"), torch.Generator().manual_seed(7))
        drawn.append(shard.weight)
    assert torch.equal(*drawn)
    assert len(drawn[0].unique()) > 100


def test_a_rank_draws_the_tables_on_its_gpu_by_a_generator_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sharding leaves the default generator elsewhere on each rank; on one CPU it draws what the reference draws."""
    from reference_models.dlrm import torchrec

    workload, own_generator, given = load_entry("dlrm_tiny").workload, torch.Generator, []
    rows = workload.data.num_embeddings
    assert rows is not None
    monkeypatch.setattr(torch, "Generator", lambda device: own_generator())
    monkeypatch.setattr(torchrec, "local_shards", lambda state: [])
    monkeypatch.setattr(torchrec, "draw_tables", lambda *arguments: given.append(arguments[-1]))
    for device, num_drawn in (("cuda", 1), ("cuda", 2), ("cpu", 1)):

        def shard(made: Any, num_drawn: int = num_drawn) -> Any:
            torch.rand(num_drawn)
            return SimpleNamespace(state_dict=dict)

        loop: Any = SimpleNamespace(
            spec=workload.spec(Path(), seed=3),
            device=torch.device(device),
            _shard=shard,
            data=SimpleNamespace(train=SimpleNamespace(num_dense=13)),
            _optimizers_of=lambda *parts: [],
        )
        torch.manual_seed(7)
        torchrec.TorchRecWorkload.build_model(loop, rows)
    first, second, on_cpu = given
    assert torch.equal(first.get_state(), second.get_state()) and first.initial_seed() == 7
    assert on_cpu is None


def test_how_many_ids_a_bag_holds_is_copied_to_the_device_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from reference_models.dlrm.torchrec import TorchRecWorkload

    loop: Any = object.__new__(TorchRecWorkload)
    with emulate_cuda(monkeypatch, num_gpus=1):
        loop.device, loop.data = torch.device("cuda", 0), SimpleNamespace(train=SimpleNamespace(multi_hot=(1, 3)))
        loop._held_lengths = {}
        first = loop._lengths(2)
        assert first is loop._lengths(2) and first.tolist() == [1, 1, 3, 3] and first.dtype == torch.int32
        assert loop._lengths(1).tolist() == [1, 3]


@pytest.mark.parametrize("spoilt", [False, True])
def test_replicas_that_do_not_begin_alike_are_refused(spoilt: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """One number of one rank's copy is another; tables that are cut are each rank's own."""
    from reference_models.dlrm import torchrec
    from reference_models.dlrm.sharding import Shard

    whole, part = torch.arange(20.0).view(10, 2), torch.ones(3, 2)
    other = whole.clone()
    other[7, 1] += spoilt
    world = SimpleNamespace(
        gather=lambda sums: [sums, {0: int(other.view(torch.int32).sum(dtype=torch.int64))}], broadcast=lambda it: it
    )
    loop: Any = object.__new__(torchrec.TorchRecWorkload)
    loop.world, loop.model = world, SimpleNamespace(state_dict=dict)
    loop.sharding_types = {"table_0": "data_parallel", "table_1": "row_wise"}
    monkeypatch.setattr(torchrec, "local_shards", lambda state: [Shard(0, whole, 0, 0), Shard(1, part, 0, 0)])
    if not spoilt:
        loop._refuse_unlike_replicas()
        return
    with pytest.raises(RuntimeError, match="do not begin alike"):
        loop._refuse_unlike_replicas()


@pytest.mark.parametrize("rowwise", [False, True])
@pytest.mark.parametrize("eps", [0.0, 1e-8])
def test_a_small_replicated_table_is_updated_without_a_list_of_rows(
    rowwise: bool, eps: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with one, which has the host wait for the GPU; rows without a gradient stay as they are, bit for bit."""
    from reference_models.distributed import sharded_optimizers

    generator = torch.Generator().manual_seed(0)
    begun = torch.randn(30, 4, generator=generator)
    gradients = [torch.randn(30, 4, generator=generator) * (torch.arange(30) % 3 == step)[:, None] for step in (0, 1)]
    ended = []
    for most in (1000, 0):
        monkeypatch.setattr(sharded_optimizers, "WHOLE_ROWS", most)
        weight = torch.nn.Parameter(begun.clone())
        optimizer = sharded_optimizers.TouchedRowsAdagrad(
            [weight], lr=0.1, lr_decay=0.5, initial_accumulator_value=0.0, eps=eps, rowwise=rowwise
        )
        for gradient in gradients:
            weight.grad = gradient.clone()
            with NoLists() if most else nullcontext():
                optimizer.step()
        ended.append((weight.detach(), optimizer.state[weight]["sum"], optimizer.state[weight]["step"]))
    assert torch.equal(ended[0][0][2::3], begun[2::3]) and ended[0][2] == ended[1][2] == 2
    for found, expected in zip(ended[0][:2], ended[1][:2], strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-7)


class NoLists(TorchDispatchMode):
    """Refuses what a GPU makes the host wait for."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        assert not func._schema.name.partition("::")[2].startswith(WAITS_OR_MAKES_SHAPES), func
        return func(*args, **(kwargs or {}))
