"""Every model's optimized implementation on an emulated GPU, which nothing here has run on."""

import gc
import weakref
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from emulated_cuda import EmulatedCUDA, emulate_cuda
from rounding import furthest, gamma, is_as_near, sway_of, weights_of
from sequence_builder import small_workload
from small_optics import ADAM, OPTICS, PATTERNS
from toy_clicks import SMOOTH, MakeSpec, flatten

from harness.run_sets.dataset import ensure_dataset
from reference_models.config.sections import RuntimeConfig, parse_runtime, parse_train
from reference_models.d2nn.config import parse_model as parse_d2nn
from reference_models.data.registry import generate_dataset, parse_data
from reference_models.dlrm.cuda_graph import NUM_SLOTS
from reference_models.fused import merged_embedding
from reference_models.fused.merged_embedding import MergedEmbedding
from reference_models.hstu import fused_layers
from reference_models.process.world import SingleProcess
from reference_models.registry import find_implementation
from reference_models.training.workload import WorkloadSpec
from reference_models.wukong.config import parse_model as parse_wukong

pytestmark = pytest.mark.numeric

WUKONG: dict[str, Any] = {
    "embedding_dim": 4, "bottom_mlp": [8, 4], "num_layers": 2, "num_fmb": 3, "num_lcb": 2, "rank": 2,
    "fmb_mlp": [8], "top_mlp": [8, 1], "init": "torchrec",
}  # fmt: skip
IMAGES = {**PATTERNS, "train_samples": 256}
STEADY_ADAM = {**ADAM, "opt_adam_epsilon": 1e-3}
"""An epsilon of the gradients' size: with less, Adam's first steps are their signs alone, whatever they round to."""


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmulatedCUDA]:
    with emulate_cuda(monkeypatch, num_gpus=1) as emulated:
        yield emulated


def build(model: str, name: str, spec: WorkloadSpec) -> Any:
    workload = find_implementation(model, name).load(spec, SingleProcess())
    workload.build()
    return workload


def both(model: str, spec: WorkloadSpec, precision: str = "fp32") -> tuple[Any, Any]:
    """Build the reference on a CPU and `optimized` on the emulated GPU."""
    on_gpu = replace(spec, runtime=parse_runtime({"threads": 1, "device": "cuda", "precision": precision}))
    return build(model, "reference", spec), build(model, "optimized", on_gpu)


@pytest.mark.slow
@pytest.mark.parametrize("opt_name", SMOOTH)
def test_a_replayed_wukong_ends_where_the_reference_does(
    gpu: EmulatedCUDA, make_spec: MakeSpec, opt_name: str
) -> None:
    spec = replace(make_spec(train=SMOOTH[opt_name]), model=parse_wukong(WUKONG))
    reference, workload = both("wukong", spec)
    assert all(
        torch.equal(*pair) for pair in zip(flatten(reference.weights()), flatten(workload.weights()), strict=True)
    )
    for trained in (reference, workload):
        assert trained.train(30).num_steps == 30
    assert [graph.num_replays for graph in gpu.graphs] == [15] * NUM_SLOTS
    assert is_as_near(weights_of(workload), *sway_of(reference, lambda: build("wukong", "reference", spec), 30))
    # Of two million pairs some twenty are as near as such weights' logits, a hundredth of a thousandth.
    assert workload.evaluate() == pytest.approx(reference.evaluate(), abs=1e-4)


@pytest.mark.slow
def test_a_replayed_wukong_in_bf16_learns_what_the_reference_does(gpu: EmulatedCUDA, make_spec: MakeSpec) -> None:
    spec = replace(make_spec(train={"opt_name": "rowwise_adagrad"}), model=parse_wukong(WUKONG))
    reference, workload = both("wukong", spec, "bf16")
    for trained in (reference, workload):
        trained.train(30)
    assert workload.evaluate() == pytest.approx(reference.evaluate(), abs=0.01)
    assert {tensor.dtype for tensor in flatten(workload.weights())} == {torch.float32}


@pytest.mark.slow
@pytest.mark.parametrize("in_pieces", [False, True])
def test_hstu_trains_as_the_reference_does(
    gpu: EmulatedCUDA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_pieces: bool
) -> None:
    """Also where a frequent row's gradients are summed in pieces, as on a GPU: emulated tensors are a CPU's."""
    if in_pieces:
        monkeypatch.setattr(fused_layers, "_SUMS", {"cpu": fused_layers._sum_runs_in_pieces})
    config = small_workload(train={"opt_adam_epsilon": STEADY_ADAM["opt_adam_epsilon"]})
    spec = config.spec(ensure_dataset(config.data, tmp_path, num_threads=1), 3)
    reference, workload = both("hstu", spec)
    for trained in (reference, workload):
        assert trained.train(12).num_samples == 1536
    assert is_as_near(
        weights_of(workload), *sway_of(reference, lambda: build("hstu", "reference", spec), 12, has_relu=False)
    )
    assert workload.evaluate() == pytest.approx(reference.evaluate(), abs=1e-3)


def test_d2nn_trains_as_the_reference_does(gpu: EmulatedCUDA, tmp_path: Path) -> None:
    data = parse_data(IMAGES)
    generate_dataset(tmp_path, data, num_threads=1, on_progress=None)
    spec = WorkloadSpec(
        model=parse_d2nn(OPTICS),
        data=data,
        train=parse_train(STEADY_ADAM),
        runtime=RuntimeConfig(threads=1),
        data_dir=tmp_path,
        seed=1,
    )
    reference, workload = both("d2nn", spec)
    for trained in (reference, workload):
        assert trained.train(8).num_samples == 256
    assert is_as_near(
        weights_of(workload), *sway_of(reference, lambda: build("d2nn", "reference", spec), 8, has_relu=False)
    )


@pytest.mark.parametrize("lengths", [(1,), (127, 1, 128, 2), (5, 1000, 1, 300), (128, 128)])
def test_sums_in_pieces_are_the_sums_and_no_piece_is_long(
    lengths: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a row that is named a thousand times, as frequent items are, no thread adds up more than a piece."""
    n = sum(lengths)
    generator = torch.Generator().manual_seed(0)
    gradient, order = torch.randn(n, 3, generator=generator), torch.randperm(n, generator=generator)
    starts = torch.tensor(lengths).cumsum(0) - torch.tensor(lengths)
    expected, sizes = (
        torch.stack([part.sum(0) for part in each[order].split(list(lengths))])
        for each in (gradient.double(), gradient.double().abs())
    )
    longest: list[int] = []
    plain = fused_layers._sum_runs

    def noting(rows: torch.Tensor, order: torch.Tensor, starts: torch.Tensor) -> torch.Tensor:
        ends = torch.cat([starts[1:], torch.tensor([len(order)])])
        longest.append(int((ends - starts).max()))
        return plain(rows, order, starts)

    monkeypatch.setattr(fused_layers, "_sum_runs", noting)
    found = fused_layers._sum_runs_in_pieces(gradient, order, starts)
    assert furthest(found, expected, gamma(max(lengths)) * sizes) <= 1
    assert max(longest) <= fused_layers._PIECE


def test_the_warm_up_copy_has_rows_of_the_models_type(
    gpu: EmulatedCUDA, make_spec: MakeSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if 32 bits held 150 rows: the copy has fewer, the model more. What is captured must have been loaded."""
    monkeypatch.setattr(merged_embedding, "_MAX_INT32", 150)
    seen: list[tuple[int, torch.dtype]] = []
    merge = MergedEmbedding.merge_ids

    def noting(self: MergedEmbedding, indices: torch.Tensor) -> torch.Tensor:
        rows = merge(self, indices)
        seen.append((len(self.weight), rows.dtype))
        return rows

    monkeypatch.setattr(MergedEmbedding, "merge_ids", noting)
    workload = build("dlrm", "optimized", make_spec(runtime={"device": "cuda"}))
    assert {(40 + 3 + 64, torch.int64), (40 + 3 + 200, torch.int64)} <= set(seen)
    assert {dtype for _, dtype in seen} == {torch.int64}
    workload.train(2)


def test_the_warm_up_copy_is_gone_while_the_model_is_built(
    make_spec: MakeSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = type(find_implementation("dlrm", "optimized").load(make_spec(), SingleProcess()))
    built: list[weakref.ref[Any]] = []
    alive: list[int] = []
    build_model = kind.build_model

    def noting(self: Any, num_embeddings: tuple[int, ...]) -> Any:
        alive.append(sum(model() is not None for model in built))
        made = build_model(self, num_embeddings)
        built.append(weakref.ref(made[0]))
        return made

    monkeypatch.setattr(kind, "build_model", noting)
    gc.disable()  # chance alone would collect it, or not
    try:
        build("dlrm", "optimized", make_spec())
    finally:
        gc.enable()
    assert alive == [0, 0]
