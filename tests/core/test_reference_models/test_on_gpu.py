"""What tests/gpu/README.md says of training on a GPU, on a real one (`make gpu`) and, cheaply, on an emulated one."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from emulated_cuda import emulate_cuda
from toy_clicks import MakeSpec, flatten

from reference_models.data.registry import parse_data
from reference_models.process.world import SingleProcess
from reference_models.registry import find_implementation
from reference_models.training.workload import WorkloadSpec

pytestmark = pytest.mark.numeric

MODELS: dict[str, dict[str, Any]] = {
    "dot": {"interaction": "dot"},
    "cat": {"interaction": "cat"},
    "dcn": {"interaction": "dcn", "dcn_num_layers": 2, "dcn_low_rank_dim": 3},
}
OPTIMIZERS = ("sgd", "adagrad", "rowwise_adagrad")
LONG_HOT = 18
"""Lookups of one row in each of 512 samples: more than 17 blocks of the 512 lookups that a kernel walks at most."""
LARGE_GIB = 40
"""Two models of 8.7 GB, and room to compare them."""
REAL = pytest.param(
    "real",
    marks=[pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")],
)
both = pytest.mark.parametrize("gpu", ["emulated", REAL], indirect=True)


@pytest.fixture
def gpu(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    if request.param == "real":
        yield "real"
        torch.cuda.empty_cache()
        return
    with emulate_cuda(monkeypatch, num_gpus=1):
        monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", lambda mode: None)
        yield "emulated"


def build(spec: WorkloadSpec, implementation: str) -> Any:
    workload = find_implementation("dlrm", implementation).load(spec, SingleProcess())
    workload.build()
    return workload


def share_beyond(found: Any, expected: Any, *, rtol: float, atol: float) -> float:
    """Share of all numbers of two states that differ by more; a sign that rounding turned is a step of Adagrad's."""
    far = size = 0
    for ours, theirs in zip(flatten(found), flatten(expected), strict=True):
        far += int((~torch.isclose(ours.double().cpu(), theirs.double().cpu(), rtol=rtol, atol=atol)).sum())
        size += theirs.numel()
    return far / size


@pytest.mark.slow
@pytest.mark.parametrize(
    ("gpu", "model", "opt_name"),
    [
        ("emulated", "dcn", "rowwise_adagrad"),
        *(pytest.param("real", model, name, marks=REAL.marks) for model in MODELS for name in OPTIMIZERS),
    ],
    indirect=["gpu"],
)
def test_fifty_steps_end_where_the_reference_does(gpu: str, make_spec: MakeSpec, model: str, opt_name: str) -> None:
    """Through a warm-up of the learning rate, with evaluations in between whose last batch is cut short."""
    spec = make_spec(
        model=MODELS[model],
        train={"opt_name": opt_name, "opt_learning_rate_warmup_steps": 10, "eval_batch_size": 700},
        runtime={"device": "cuda"},
    )
    reference, optimized = build(spec, "reference"), build(spec, "optimized")
    for name, value in optimized.state()["model"].items():
        assert torch.equal(value, reference.state()["model"][name]), "they begin alike"
    for num_steps in (1, 2, 30, 17):
        for trained in (reference, optimized):
            assert trained.train(num_steps).num_steps == num_steps
        assert optimized.evaluate() == pytest.approx(reference.evaluate(), abs=1e-3)
    begun = build(spec, "reference").state()["model"]
    assert share_beyond(begun, reference.state()["model"], rtol=1e-3, atol=1e-4) > 0.2, "training changes weights"
    for part in ("model", "optimizers"):
        assert share_beyond(optimized.state()[part], reference.state()[part], rtol=1e-3, atol=1e-4) <= 1e-3


@pytest.mark.slow
@both
def test_long_runs_of_wide_rows_end_where_the_reference_does(gpu: str, make_spec: MakeSpec) -> None:
    """Rows of 128 numbers, one of which fills more blocks than kernels join at a time."""
    given = make_spec(
        model={**MODELS["dcn"], "embedding_dim": 128, "bottom_mlp": [16, 128]},
        train={"opt_name": "rowwise_adagrad", "global_batch_size": 512, "eval_batch_size": 512},
        runtime={"device": "cuda"},
    )
    data = {
        "kind": "synthetic",
        "num_embeddings": [1, 300],
        "multi_hot": [LONG_HOT, 2],
        "num_dense": 4,
        "train_samples": 5 * 512,
        "eval_samples": 2000,
    }
    spec = replace(given, data=parse_data(data), data_dir=Path())
    reference, optimized = build(spec, "reference"), build(spec, "optimized")
    begun = [table.clone() for table in tables_of(reference)]
    for trained in (reference, optimized):
        trained.train(50)
    for ours, theirs, before in zip(tables_of(optimized), tables_of(reference), begun, strict=True):
        change = theirs - before
        assert change.norm() > 0.1 * before.norm(), "training changes each table"
        assert (ours - theirs).norm() <= 1e-3 * change.norm()
    assert share_beyond(optimized.state()["model"], reference.state()["model"], rtol=1e-3, atol=1e-4) <= 1e-3


def tables_of(workload: Any) -> list[torch.Tensor]:
    return [weight for weight in workload.state()["model"].values() if weight.shape in ((1, 128), (300, 128))]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("gpu", "model", "opt_name", "precision"),
    [
        pytest.param(name, *case, marks=marks)
        for name, marks in (("emulated", ()), ("real", REAL.marks))
        for case in (("dot", "adagrad", "fp32"), ("dcn", "rowwise_adagrad", "bf16"))
    ],
    indirect=["gpu"],
)
def test_equal_seeds_end_with_equal_weights(
    gpu: str, make_spec: MakeSpec, model: str, opt_name: str, precision: str
) -> None:
    ended = []
    for seed in (3, 3, 4):
        given = {"device": "cuda", "precision": precision}
        spec = make_spec(seed=seed, model=MODELS[model], train={"opt_name": opt_name}, runtime=given)
        workload = build(spec, "optimized")
        workload.train(20)
        ended.append([tensor.cpu() for tensor in flatten(workload.state()["model"])])
    assert all(torch.equal(first, second) for first, second in zip(ended[0], ended[1], strict=True))
    assert not all(torch.equal(first, third) for first, third in zip(ended[0], ended[2], strict=True))


@both
def test_a_step_waits_for_no_result(gpu: str, make_spec: MakeSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    workload = build(make_spec(runtime={"device": "cuda"}), "optimized")
    workload.train(3)
    monkeypatch.setattr(workload, "check_loss", lambda loss: None)  # once per call, and meant to wait
    torch.cuda.set_sync_debug_mode("error")
    try:
        assert workload.train(20).num_steps == 20
    finally:
        torch.cuda.set_sync_debug_mode("default")
    if gpu == "real":
        torch.cuda.set_sync_debug_mode("error")
        with pytest.raises(RuntimeError, match="synchroniz"):
            torch.ones(1, device="cuda").item()
        torch.cuda.set_sync_debug_mode("default")


@both
def test_tables_of_more_than_two_to_the_31_numbers(gpu: str, make_spec: MakeSpec) -> None:
    rows, dim = (17_000_000, 128) if gpu == "real" else (400, 4)
    if gpu == "real" and torch.cuda.get_device_properties(0).total_memory < LARGE_GIB << 30:
        pytest.skip(f"needs a GPU of {LARGE_GIB} GiB")
    data = {
        "kind": "synthetic",
        "num_embeddings": [rows, 3],
        "multi_hot": [2, 1],
        "num_dense": 4,
        "train_samples": 20 * 128,
        "eval_samples": 1000,
    }
    # Rates of SGD turn no rounding into a step.
    given = make_spec(
        model={"embedding_dim": dim, "bottom_mlp": [8, dim]}, train={"opt_name": "sgd"}, runtime={"device": "cuda"}
    )
    spec = replace(given, data=parse_data(data), data_dir=Path())
    reference, optimized = build(spec, "reference"), build(spec, "optimized")
    (name,) = [name for name, weight in optimized.state()["model"].items() if len(weight) == rows]
    begun = optimized.state()["model"][name][-rows // 4 :].clone()
    for trained in (reference, optimized):
        trained.train(20)
    ours, theirs = (trained.state()["model"][name] for trained in (optimized, reference))
    assert not torch.equal(ours[-rows // 4 :], begun), "rows beyond 2^31 numbers were trained"
    for first in range(0, rows, 1 << 21):
        part = slice(first, first + (1 << 21))
        assert torch.allclose(ours[part], theirs[part], rtol=1e-3, atol=1e-5)
    assert optimized.evaluate() == pytest.approx(reference.evaluate(), abs=1e-3)
