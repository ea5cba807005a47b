"""The optimized implementation's CUDA graph, captured and replayed on an emulated GPU; nothing here ran on a GPU."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from emulated_cuda import WAITS_OR_MAKES_SHAPES, EmulatedCUDA, Recorder, emulate_cuda
from fake_step import trace
from rounding import is_as_near, sway_of, weights_of
from torch.utils._python_dispatch import TorchDispatchMode
from toy_clicks import BATCH, SMOOTH, MakeSpec, flatten, is_same, write_dataset

from harness.measure.profile.analysis import join_replayed
from harness.measure.profile.steps import Timeline, split_replay
from reference_models.config.sections import parse_runtime
from reference_models.costs import PhaseCosts
from reference_models.data.registry import parse_data
from reference_models.data.store.dataset import Batch
from reference_models.dlrm.cuda_graph import NUM_SLOTS, CUDAGraphWorkload
from reference_models.dlrm.fused_step import FusedDLRM
from reference_models.dlrm.reference import ReferenceWorkload
from reference_models.fused.merged_embedding import MergedEmbedding
from reference_models.process.errors import DatasetError
from reference_models.process.world import SingleProcess
from reference_models.training.loop import WARM_UP_STEPS
from reference_models.training.phases import Phase, TimesReplay
from reference_models.training.read_ahead import read_ahead
from reference_models.training.workload import WorkloadSpec
from rules.benchmarks.loader import load_benchmark

pytestmark = pytest.mark.numeric
MODELS: dict[str, dict[str, Any]] = {
    "dot": {"interaction": "dot"},
    "cat": {"interaction": "cat"},
    "dcn": {"interaction": "dcn", "dcn_num_layers": 2, "dcn_low_rank_dim": 3},
}
CHANGING_RATES = {"opt_learning_rate_warmup_steps": 10}


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmulatedCUDA]:
    with emulate_cuda(monkeypatch, num_gpus=1) as emulated:
        yield emulated


def build_reference(spec: WorkloadSpec) -> ReferenceWorkload:
    workload = ReferenceWorkload(spec, SingleProcess())
    workload.build()
    return workload


def build_graph(spec: WorkloadSpec) -> CUDAGraphWorkload:
    workload = CUDAGraphWorkload(spec, SingleProcess())
    workload.build()
    return workload


def test_the_warm_up_is_of_the_captured_types(
    gpu: EmulatedCUDA, make_spec: MakeSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    train = FusedDLRM.train_on_tensors

    def watched(model: FusedDLRM, batch: Batch, rates: torch.Tensor) -> torch.Tensor:
        seen.append((batch.dense.dtype, batch.indices.dtype, batch.labels.dtype))
        return train(model, batch, rates)

    monkeypatch.setattr(FusedDLRM, "train_on_tensors", watched)
    build_graph(make_spec(runtime={"device": "cuda"}))
    assert seen == [(torch.float32, torch.int32, torch.float32)] * (WARM_UP_STEPS + NUM_SLOTS)


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("opt_name", SMOOTH)
def test_fifty_replayed_steps_end_where_the_reference_does(
    gpu: EmulatedCUDA, make_spec: MakeSpec, model: str, opt_name: str
) -> None:
    """From the same start, through a warm-up of the learning rate, with evaluations in between."""
    asked = {"model": MODELS[model], "train": {**SMOOTH[opt_name], **CHANGING_RATES}}
    reference = build_reference(make_spec(**asked))
    workload = build_graph(make_spec(**asked, runtime={"device": "cuda"}))
    assert len(gpu.graphs) == NUM_SLOTS
    before, after = reference.state()["model"], workload.state()["model"]
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before), "capturing runs nothing"
    for num_steps in (1, 2, 30, 17):
        for trained in (reference, workload):
            assert trained.train(num_steps).num_steps == num_steps
        # Of two million pairs some twenty are as near as such weights' logits, a hundredth of a thousandth.
        assert workload.evaluate() == pytest.approx(reference.evaluate(), abs=1e-4)
    assert [graph.num_replays for graph in gpu.graphs] == [25, 25]
    bound = sway_of(reference, lambda: build_reference(make_spec(**asked)), 50, read=lambda of: flatten(of.state()))
    assert is_as_near(flatten(workload.state()), *bound)


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
def test_in_bf16_fifty_replayed_steps_learn_what_the_reference_does(
    gpu: EmulatedCUDA, make_spec: MakeSpec, model: str
) -> None:
    """Features, crosses and gradients are of eight bits; weights, their updates and logits are not."""
    asked = {"model": MODELS[model], "train": {"opt_name": "rowwise_adagrad"}}
    reference = build_reference(make_spec(**asked))
    workload = build_graph(make_spec(**asked, runtime={"device": "cuda", "precision": "bf16"}))
    for trained in (reference, workload):
        trained.train(50)
    assert workload.evaluate() == pytest.approx(reference.evaluate(), abs=0.01)
    assert {tensor.dtype for tensor in flatten(workload.state()["model"])} == {torch.float32}
    narrow = [
        out for _, _, _, out in gpu.graphs[0].calls if isinstance(out, torch.Tensor) and out.dtype == torch.bfloat16
    ]
    assert len(narrow) > 20


def test_a_replayed_step_is_read_and_replayed_and_nothing_else(gpu: EmulatedCUDA, make_spec: MakeSpec) -> None:
    workload = build_graph(make_spec(runtime={"device": "cuda"}))
    reported: list[str] = []
    with workload.report_phases(reported.append):
        workload.train(3)
    assert reported == [*[Phase.DATA, Phase.REPLAY] * 3, Phase.OTHER]
    timeline = Timeline(torch.device("cuda", 0))
    with workload.report_phases(timeline.enter):
        workload.train(3)
    # The emulated events are a second apart; the loop is entered twice at the end, once to close the last stamp.
    assert timeline.take() == pytest.approx({Phase.DATA: 3e-3, Phase.REPLAY: 3e-3, Phase.OTHER: 1e-3})


def test_events_inside_a_graph_time_the_phases_of_each_step(gpu: EmulatedCUDA, make_spec: MakeSpec) -> None:
    """Of emulated events, which are a millisecond apart; and the numbers are those of steps without events."""
    plain, timed = (build_graph(make_spec(runtime={"device": "cuda"})) for _ in range(2))
    assert isinstance(timed, TimesReplay)
    reported: list[str] = []
    with timed.report_phases(reported.append):
        timed.train(3)
    taken = timed.take_replayed()
    assert reported == [*[Phase.DATA, Phase.REPLAY] * 3, Phase.OTHER]
    assert {Phase.SPARSE_OPTIMIZER, Phase.LOSS, "embedding_forward", "top_mlp_backward"} < set(taken)
    assert taken[Phase.LOSS] == pytest.approx(3e-3) and timed.take_replayed() == {}
    with timed.report_phases(reported.append):
        timed.train(1)
    timed.train(4)
    assert timed.take_replayed()[Phase.LOSS] == pytest.approx(1e-3), "steps outside are not timed"
    plain.train(8)
    assert is_same(flatten(plain.state()), flatten(timed.state()))
    assert len(gpu.graphs) == 2 * NUM_SLOTS + NUM_SLOTS, "captured once more, when first asked for"


def test_what_is_known_of_a_replay_takes_its_place() -> None:
    reported = {Phase.DATA: 1.0, Phase.REPLAY: 8.0, Phase.OTHER: 0.5}
    assert split_replay(reported, {}) == reported
    split = split_replay(reported, {Phase.LOSS: 3.0, Phase.OTHER: 0.25})
    assert split == {Phase.DATA: 1.0, Phase.LOSS: 3.0, Phase.OTHER: 0.75}


def test_what_a_replay_does_is_held_against_all_that_the_step_does() -> None:
    costs = {"data": PhaseCosts(bytes=1), "loss": PhaseCosts(bytes=2), "top_mlp_forward": PhaseCosts(matmul_flop=4)}
    joined, products = join_replayed({"data": 0.1, "graph_replay": 0.9}, costs, ())
    assert joined == {"data": PhaseCosts(bytes=1), Phase.REPLAY: PhaseCosts(bytes=2, matmul_flop=4)}
    assert join_replayed({"data": 0.1, "loss": 0.9}, costs, ()) == (costs, ()) and products == ()


def test_learning_rates_go_to_the_gpu_when_they_change(
    gpu: EmulatedCUDA, make_spec: MakeSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    workload = build_graph(make_spec(runtime={"device": "cuda"}, train={"opt_learning_rate_warmup_steps": 4}))
    pinned: Counter[tuple[int, ...]] = Counter()
    pin = torch.Tensor.pin_memory
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda part: (pinned.update([tuple(part.shape)]), pin(part))[1])
    workload.train(20)
    assert pinned[(2,)] == 4


def test_a_batch_is_copied_beside_the_step_before_it_and_after_that_of_its_buffers(
    gpu: EmulatedCUDA, make_spec: MakeSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is asked of streams, events and graphs in three steps, by the set of buffers that it is about."""
    workload = build_graph(make_spec(runtime={"device": "cuda"}))
    assert workload._graph_step is not None
    slots = workload._graph_step._slots
    names = {id(slot.is_free): f"free {i}" for i, slot in enumerate(slots)}
    names |= {id(slot.is_full): f"full {i}" for i, slot in enumerate(slots)}
    names |= {id(slot.graph): f"graph {i}" for i, slot in enumerate(slots)}
    names[id(workload._graph_step._copying)] = "copying"
    asked: list[str] = []

    def noting(kind: type, method: str, text: str) -> None:
        real = getattr(kind, method)

        def noted(self: Any, *args: Any) -> Any:
            others = [names.get(id(arg), "computing") for arg in args]
            asked.append(text.format(names.get(id(self), "computing"), *others))
            return real(self, *args)

        monkeypatch.setattr(kind, method, noted)

    noting(type(slots[0].is_free), "synchronize", "wait for {0}")
    noting(type(slots[0].is_free), "record", "{0} after {1}")
    noting(torch.cuda.Stream, "wait_event", "{0} waits for {1}")
    noting(type(slots[0].graph), "replay", "{0}")
    workload.train(3)
    assert asked == [
        line
        for i in (0, 1, 0)
        for line in (
            f"wait for free {i}",
            f"full {i} after copying",
            f"computing waits for full {i}",
            f"graph {i}",
            f"free {i} after computing",
        )
    ]
    assert {slot.batch.indices.dtype for slot in slots} == {torch.int32}
    assert not {slots[0].batch.indices.data_ptr()} & {slots[1].batch.indices.data_ptr()}


@pytest.mark.parametrize(("free_bytes", "reads"), [(80 << 30, [4, 0]), (100, [4, 4])])
def test_what_is_evaluated_again_is_read_once_where_it_fits(
    gpu: EmulatedCUDA, make_spec: MakeSpec, monkeypatch: pytest.MonkeyPatch, free_bytes: int, reads: list[int]
) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device=None: (free_bytes, 80 << 30))
    spec = make_spec(runtime={"device": "cuda"}, train={"eval_batch_size": 900})
    reference = build_reference(replace(spec, runtime=parse_runtime({"threads": 1})))
    workload = build_graph(spec)
    split = workload.data.eval
    places: list[int] = []
    read_into = split.read_into
    monkeypatch.setattr(split, "read_into", lambda start, *rest: (places.append(start), read_into(start, *rest))[1])
    expected = reference.evaluate()
    for number in reads:
        assert workload.evaluate() == pytest.approx(expected, abs=1e-6)
        assert len(places) == number
        places.clear()


def test_synthetic_data_are_copied_to_the_device_once(gpu: EmulatedCUDA, make_spec: MakeSpec) -> None:
    data = {
        "kind": "synthetic",
        "name": "made",
        "num_embeddings": [40, 3, 200],
        "multi_hot": [1, 1, 2],
        "num_dense": 4,
    }
    made = parse_data(data | {"train_samples": 5 * BATCH, "eval_samples": 3000})
    spec = replace(make_spec(train=SMOOTH["adagrad"]), data=made)
    reference = build_reference(spec)
    workload = build_graph(replace(spec, runtime=parse_runtime({"device": "cuda", "threads": 1})))
    assert workload._held == {}, "data are first touched when training begins"
    for trained in (reference, workload):
        assert [trained.train(3).num_steps for _ in range(4)] == [3, 2, 3, 2]
    assert set(workload._held) == {"train"}
    assert is_as_near(weights_of(workload), *sway_of(reference, lambda: build_reference(spec), 10))


def test_damage_is_found_in_ids_of_32_bits(gpu: EmulatedCUDA, make_spec: MakeSpec, tmp_path: Path) -> None:
    for value, found in ((-1, "id -1 is outside its table of 40 rows"), (40, "id 40 is outside")):

        def damage(indices: Any, labels: Any, value: int = value) -> None:
            indices[BATCH + 3, 0] = value

        (folder := tmp_path / str(value)).mkdir()
        write_dataset(folder, damage=damage)
        workload = build_graph(make_spec(runtime={"device": "cuda"}, folder=folder))
        with pytest.raises(DatasetError, match=f"train sample {BATCH + 3}, sparse feature 0: {found}"):
            workload.train(3)


def test_batches_read_ahead_of_one_call_are_there_for_the_next(
    gpu: EmulatedCUDA, make_spec: MakeSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    readers: list[range] = []

    def noting(read: Any, places: range) -> Iterator[Any]:
        readers.append(places)
        return read_ahead(read, places)

    monkeypatch.setattr("reference_models.training.loop.read_ahead", noting)
    workload = build_graph(make_spec(runtime={"device": "cuda"}))
    for _ in range(5):
        workload.train(10)
    assert [len(places) for places in readers] == [50], "one reader for the whole epoch"
    workload.train(10)
    assert len(readers) == 2, "and one for the next"


def test_a_batch_that_cannot_be_read_is_not_skipped_by_the_next_call(
    gpu: EmulatedCUDA, make_spec: MakeSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    workload = build_graph(make_spec(runtime={"device": "cuda"}))
    workload.train(5)
    step = workload.train_step
    monkeypatch.setattr(workload, "train_step", lambda *args: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        workload.train(5)
    monkeypatch.setattr(workload, "train_step", step)
    assert workload.train(3).num_samples == 3 * BATCH
    assert workload._step == 9


@pytest.mark.parametrize("width", [0, 1, 4])
def test_no_row_is_written_by_more_sums_than_its_own_lookups_and_one(width: int) -> None:
    """Sums of nothing used to be added to the last row, all of them: millions of atomic writes to one row."""
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(50, 4, generator=generator)
    embedding = MergedEmbedding(weight, torch.rand(50, width) if width else None, (43, 7), (2, 3))
    indices = torch.randint(0, 3, (64, 5), generator=generator)
    written: list[torch.Tensor] = []

    class NotesIndices(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if "index_add" in func._schema.name:
                written.append(args[2])
            return func(*args, **(kwargs or {}))

    rows = embedding.merge_ids(indices)
    with NotesIndices():
        embedding.update_static(rows, embedding.plan(64), torch.randn(64, 3, 4), torch.tensor(0.1), 1e-8)
    assert len(written) == (2 if width else 1)
    most = rows.bincount(minlength=50) + 1
    for touched in written:
        assert (touched.bincount(minlength=50) <= most).all()


def test_a_capture_that_would_wait_for_the_device_is_seen() -> None:
    with pytest.raises(AssertionError, match="cannot be captured"), Recorder():
        torch.ones(3).sum().item()


@pytest.mark.slow
@pytest.mark.parametrize("opt_name", SMOOTH)
def test_the_full_size_step_neither_waits_nor_makes_shapes_of_values(opt_name: str) -> None:
    """On tensors without memory: DLRM-DCNv2 with its 204 million rows, at its official batch's size."""
    traced = trace(dict(load_benchmark("dlrm_dcnv2").sections), opt_name, 65536)
    names = [name.partition("::")[2] for name in traced.training.calls]
    assert "embedding_bag" in str(names) and "index_add_" in names, "these are a step's operators"
    assert [name for name in names if name.startswith(WAITS_OR_MAKES_SHAPES)] == []
    assert traced.building.peak_bytes <= 1.05 * traced.state_bytes + 1e6, "optimizer state is made where it stays"
