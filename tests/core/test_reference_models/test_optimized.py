"""The optimized implementation makes the reference's updates, serves its protocol, and repeats itself exactly."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from emulated_cuda import emulate_cuda
from rounding import crossing_of, is_as_near, sway, sway_of, turn, weights_of
from toy_clicks import BATCH, SMOOTH, TRAIN_SAMPLES, MakeSpec, flatten, is_same, write_dataset

from reference_models.config.sections import parse_runtime, parse_train
from reference_models.data.store.dataset import Batch
from reference_models.dlrm.config import DLRMConfig, parse_model
from reference_models.dlrm.fused_step import FusedDLRM
from reference_models.dlrm.model import DLRM
from reference_models.dlrm.optimized import OptimizedWorkload
from reference_models.dlrm.phases import DLRMPhase
from reference_models.dlrm.reference import ReferenceWorkload
from reference_models.fused import merged_embedding
from reference_models.fused.cpu_kernels import find_cpu_kernels
from reference_models.fused.dense_parameters import DenseParameter
from reference_models.fused.matmul import Matmuls
from reference_models.process.errors import DatasetError
from reference_models.process.world import SingleProcess
from reference_models.registry import find_implementation
from reference_models.training.optimizers import build_optimizers
from reference_models.training.workload import Workload, WorkloadSpec

pytestmark = pytest.mark.numeric
DOT: dict[str, Any] = {"interaction": "dot"}
CAT: dict[str, Any] = {"interaction": "cat"}
DCN: dict[str, Any] = {"interaction": "dcn", "dcn_num_layers": 2, "dcn_low_rank_dim": 3}
LAYERS: dict[str, Any] = {"embedding_dim": 4, "bottom_mlp": [8, 4], "top_mlp": [16, 1]}
OPTIMIZERS = ("sgd", "adagrad", "rowwise_adagrad")
# Wide enough for the kernels that large products go to.
WIDE_LAYERS: dict[str, Any] = {"embedding_dim": 64, "bottom_mlp": [96, 64], "top_mlp": [128, 80, 1]}
WIDE_DCN: dict[str, Any] = WIDE_LAYERS | DCN | {"dcn_low_rank_dim": 64}
MODELS = [DOT, CAT, DCN, WIDE_LAYERS | DOT, WIDE_DCN]
MODEL_IDS = ["dot", "cat", "dcn", "dot wide", "dcn wide"]
# A table of one row, and bags full of duplicates: three ids out of seven.
TABLES: dict[str, Any] = {"num_dense": 4, "num_embeddings": (40, 1, 7), "multi_hot": (1, 1, 3)}
Built = tuple[DLRM, list[torch.optim.Optimizer]]


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def pair(
    config: DLRMConfig, opt_name: str, *, fuses: bool = True, matmuls: Matmuls | None = None, **options: float
) -> tuple[Built, tuple[FusedDLRM, list[Any]]]:
    """The plain module and the fused one, from one seed, each with its optimizers."""
    train = parse_train({"global_batch_size": BATCH, "opt_name": opt_name, "opt_base_learning_rate": 0.01, **options})
    built: list[Any] = []
    for kind in (DLRM, FusedDLRM):
        torch.manual_seed(1)
        model = kind(config, **TABLES)
        optimizers = build_optimizers(
            train,
            embedding_parameters=model.embedding_parameters(),
            dense_parameters=model.dense_parameters(),
        )
        built.append((model, optimizers))
    if fuses:
        built[1][0].fuse(built[1][1], matmuls)
    return built[0], built[1]


def batches(num_steps: int, size: int = 64) -> Iterator[Batch]:
    generator = torch.Generator().manual_seed(3)
    rows, hot = torch.tensor(TABLES["num_embeddings"]), torch.tensor(TABLES["multi_hot"])
    limits = rows.repeat_interleave(hot)
    for _ in range(num_steps):
        indices = (torch.rand(size, len(limits), generator=generator) * limits).long()
        labels = torch.randint(2, (size,), generator=generator).to(torch.get_default_dtype())
        yield Batch(torch.randn(size, TABLES["num_dense"], generator=generator), indices, labels)


def reference_step(model: DLRM, optimizers: Sequence[torch.optim.Optimizer], batch: Batch) -> torch.Tensor:
    loss = torch.nn.functional.binary_cross_entropy_with_logits(model(batch.dense, batch.indices), batch.labels)
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss.backward()
    for optimizer in optimizers:
        optimizer.step()
    return loss.detach()


def relative_distance(first: DLRM, second: DLRM) -> float:
    """|a - b| / |a| over all weights; with `-p` names they must agree too."""
    a, b = first.state_dict(), second.state_dict()
    assert list(a) == list(b)
    flat = [torch.cat([value.flatten() for value in state.values()]) for state in (a, b)]
    return float((flat[0] - flat[1]).norm() / flat[0].norm())


@pytest.mark.parametrize("model", MODELS, ids=MODEL_IDS)
@pytest.mark.parametrize("opt_name", OPTIMIZERS)
def test_five_steps_have_the_references_logits_and_losses(model: dict[str, Any], opt_name: str) -> None:
    tolerance = 1e-10
    with default_dtype(torch.float64):
        (plain, optimizers), (fused, _) = pair(parse_model(LAYERS | model), opt_name)
        assert relative_distance(plain, fused) == 0, "the same seed gives the same weights"
        for batch in batches(5):
            expected = plain(batch.dense, batch.indices).detach()
            assert torch.allclose(fused.logits(batch), expected, rtol=tolerance, atol=tolerance)
            loss = reference_step(plain, optimizers, batch)
            assert float(fused.train_step(batch)) == pytest.approx(float(loss), rel=tolerance, abs=tolerance)
        last = next(batches(1, size=13))
        assert torch.allclose(
            fused.logits(last), plain(last.dense, last.indices), rtol=10 * tolerance, atol=10 * tolerance
        )


def follow(
    model: DLRM, step: Callable[[Batch], torch.Tensor], logits: Callable[[Batch], torch.Tensor], num_steps: int
) -> list[torch.Tensor]:
    """Train; return the logits and losses of the first five steps, and the weights in the end."""
    found: list[torch.Tensor] = []
    for number, batch in enumerate(batches(num_steps)):
        before = logits(batch).detach().clone() if number < 5 else None
        loss = step(batch)
        found += [] if before is None else [before, loss.detach().clone()]
    return [*found, *(value.detach().clone() for value in model.state_dict().values())]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "opt_name", "is_compiled"),
    [
        *((model, opt_name, False) for model in MODELS for opt_name in OPTIMIZERS),
        *((model, opt_name, True) for model in (WIDE_LAYERS | DOT, WIDE_DCN) for opt_name in OPTIMIZERS),
    ],
)
def test_in_fp32_steps_lead_where_rounding_leaves_them(
    model: dict[str, Any], opt_name: str, is_compiled: bool
) -> None:
    kernels, num_steps = find_cpu_kernels() if is_compiled else None, 20 if is_compiled else 10
    if isinstance(kernels, str):
        pytest.skip(kernels)
    given = {name: value for name, value in SMOOTH[opt_name].items() if name != "opt_name"}

    def train_plain(is_turned: bool) -> list[torch.Tensor]:
        (plain, optimizers), _ = pair(parse_model(LAYERS | model), opt_name, fuses=False, **given)
        if is_turned:
            turn(plain.state_dict().values())
        step = partial(reference_step, plain, optimizers)
        return follow(plain, step, lambda batch: plain(batch.dense, batch.indices), num_steps)

    _, (fused, _) = pair(parse_model(LAYERS | model), opt_name, matmuls=Matmuls(cpu_kernels=kernels), **given)
    found = follow(fused, fused.train_step, fused.logits, num_steps)
    begun, _ = pair(parse_model(LAYERS | model), opt_name, fuses=False, **given)
    ends = begun[0].state_dict().values(), fused.state_dict().values()
    assert is_as_near(found, *sway(train_plain, num_steps, crossing=crossing_of(*ends, num_steps, batch=64)))


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS, ids=MODEL_IDS)
@pytest.mark.parametrize("opt_name", OPTIMIZERS)
def test_a_hundred_steps_lead_to_the_references_weights_and_optimizer_state(
    model: dict[str, Any], opt_name: str
) -> None:
    tolerance = 1e-10
    with default_dtype(torch.float64):
        decay = {} if opt_name == "sgd" else {"opt_adagrad_learning_rate_decay": 0.01}
        (plain, plain_optimizers), (fused, optimizers) = pair(parse_model(LAYERS | model), opt_name, **decay)
        for batch in batches(100):
            reference_step(plain, plain_optimizers, batch)
            fused.train_step(batch)
        assert relative_distance(plain, fused) < tolerance
        fused.count_steps()
        for ours, theirs in zip(optimizers, plain_optimizers, strict=True):
            assert set(ours.state_dict()["state"]) == set(theirs.state_dict()["state"])
            states = flatten(ours.state_dict()), flatten(theirs.state_dict())
            for a, b in zip(*states, strict=True):
                assert torch.allclose(a.double(), b.double(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("opt_name", OPTIMIZERS)
def test_updating_tables_in_pieces_changes_no_bit(opt_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    states = []
    for numbers_per_piece in (merged_embedding._CACHED, 8):
        monkeypatch.setattr(merged_embedding, "_CACHED", numbers_per_piece)
        _, (fused, _) = pair(parse_model(LAYERS | DOT), opt_name)
        for batch in batches(3):
            fused.train_step(batch)
        states.append(flatten(fused.state_dict()))
    assert is_same(*states)


@pytest.mark.slow
@pytest.mark.parametrize("model", [DOT, DCN], ids=["dot", "dcn"])
@pytest.mark.parametrize("opt_name", OPTIMIZERS)
def test_the_step_that_cuda_captures_makes_the_same_updates(model: dict[str, Any], opt_name: str) -> None:
    """On a CPU: everything but the capturing itself."""
    with default_dtype(torch.float64):
        (plain, plain_optimizers), (fused, optimizers) = pair(parse_model(LAYERS | model), opt_name, fuses=False)
        fused.fuse(optimizers, Matmuls(keeps_results=False))
        for batch in batches(100):
            reference_step(plain, plain_optimizers, batch)
            fused.train_on_tensors(batch, torch.tensor([0.01, 0.01]))
        assert relative_distance(plain, fused) < 1e-10
        last = next(batches(1, size=13))
        assert torch.allclose(fused.logits(last), plain(last.dense, last.indices), rtol=0, atol=1e-10)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize(("precision", "tolerance"), [("fp32", 1e-3), ("tf32", 1e-2), ("bf16", 5e-2)])
def test_cuda_trains_like_the_cpu_from_the_same_weights(
    make_spec: MakeSpec, precision: str, tolerance: float
) -> None:
    spec = make_spec()
    cpu = build(spec)
    cuda_spec = replace(spec, runtime=parse_runtime({"device": "cuda", "precision": precision}))
    cuda = find_implementation("dlrm", "optimized").load(cuda_spec, SingleProcess())
    cuda.build()
    copy_weights(cpu, cuda)
    for workload in (cpu, cuda):
        workload.train(50)
    assert cuda.evaluate() == pytest.approx(cpu.evaluate(), abs=tolerance)
    assert (cuda.peak_device_bytes() or 0) > 0


def copy_weights(source: Any, target: Any) -> None:
    """Let `target`'s weights be `source`'s, and what its products read of them, which may be narrower copies."""
    for name, value in target.state()["model"].items():
        value.copy_(source.state()["model"][name])
    for parameter in dense_parameters_of(target.model):
        parameter.write_narrow()


def dense_parameters_of(model: FusedDLRM) -> list[DenseParameter]:
    """What the fused passes hold, by whatever layers."""
    waiting: list[Any] = [model.bottom, model.middle, model.top]
    found: dict[int, DenseParameter] = {}
    while waiting:
        each = waiting.pop()
        if isinstance(each, DenseParameter):
            found[id(each)] = each
        elif isinstance(each, list | tuple):
            waiting += each
        elif isinstance(each, partial):
            waiting += [each.func, *each.args, *each.keywords.values()]
        elif type(each).__module__.startswith("reference_models.fused"):
            names = [*getattr(each, "__dict__", ()), *getattr(each, "__slots__", ())]
            waiting += [getattr(each, name) for name in names]
    return list(found.values())


@pytest.mark.parametrize("model", [{}, CAT, DCN], ids=["dot", "cat", "dcn"])
def test_weights_copied_for_bf16_are_those_that_products_read(
    make_spec: MakeSpec, model: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the comparison above would begin with another model's products, which its tolerance hides."""
    with emulate_cuda(monkeypatch, num_gpus=1):
        runtime = parse_runtime({"device": "cuda", "precision": "bf16"})
        other, cuda = (
            find_implementation("dlrm", "optimized").load(
                replace(make_spec(model=model, seed=seed), runtime=runtime), SingleProcess()
            )
            for seed in (1, 2)
        )
        other.build()
        cuda.build()
        copy_weights(other, cuda)
        parameters = dense_parameters_of(cuda.model)
        assert sum(parameter.narrow is not None for parameter in parameters) >= 4
        for parameter in parameters:
            assert torch.equal(parameter.operand, parameter.value.to(parameter.operand.dtype))
        assert cuda.evaluate() == other.evaluate()


def test_epsilon_of_zero_leaves_padding_alone() -> None:
    """Where neither gradient nor sum exist, Adagrad without epsilon divides zero by zero."""
    _, (fused, _) = pair(parse_model(LAYERS | DOT), "adagrad", opt_adagrad_epsilon=0.0)
    padding = fused.bottom[0].weight.value[:, TABLES["num_dense"] + 1 :]
    assert padding.numel() > 0
    fused.train_step(next(batches(1)))
    assert torch.equal(padding, torch.zeros_like(padding))


def build(spec: WorkloadSpec) -> OptimizedWorkload:
    workload = OptimizedWorkload(spec, SingleProcess())
    workload.build()
    return workload


def build_reference(spec: WorkloadSpec) -> ReferenceWorkload:
    workload = ReferenceWorkload(spec, SingleProcess())
    workload.build()
    return workload


@pytest.mark.parametrize("model", [{}, CAT, DCN], ids=["dot", "cat", "dcn"])
@pytest.mark.parametrize("opt_name", OPTIMIZERS)
def test_starts_from_the_references_state_bit_for_bit_and_keeps_its_form(
    make_spec: MakeSpec, model: dict[str, Any], opt_name: str
) -> None:
    spec = make_spec(model=model, train=SMOOTH[opt_name])
    theirs = build_reference(spec)
    ours = build(spec)
    assert is_same(flatten(ours.state()), flatten(theirs.state()))
    kernels = ours.hyperparameters()["kernels"]
    assert ours.hyperparameters() == {**theirs.hyperparameters(), "kernels": kernels}
    assert kernels == "compiled" or str(kernels).startswith("torch: ")
    for workload in (ours, theirs):
        workload.train(3)
    ours_state, theirs_state = flatten(ours.state()), flatten(theirs.state())
    assert [(t.shape, t.dtype) for t in ours_state] == [(t.shape, t.dtype) for t in theirs_state]
    # Of two million pairs some twenty are nearer than rounding moves logits, a hundredth of a thousandth at most.
    assert ours.evaluate() == pytest.approx(theirs.evaluate(), abs=1e-4)


def test_learning_rate_follows_the_policy(make_spec: MakeSpec) -> None:
    keys = {"opt_learning_rate_warmup_steps": 30}
    spec = make_spec(train=keys | {"opt_name": "sgd", "opt_base_learning_rate": 0.5})
    ours: Workload = build(spec)
    theirs: Workload = build_reference(spec)
    constant = build(replace(spec, train=parse_train({**keys, "opt_name": "sgd", "opt_base_learning_rate": 0.5,
        "global_batch_size": BATCH, "opt_learning_rate_warmup_steps": 0})))  # fmt: skip
    for workload in (ours, theirs, constant):
        workload.train(10)
    expected, allowed = sway_of(theirs, lambda: build_reference(spec), 10)
    assert is_as_near(weights_of(ours), expected, allowed)
    assert not is_as_near(weights_of(constant), expected, 10 * allowed)


@pytest.mark.parametrize("bad_id", [3, -1, 2**31 - 1])
def test_an_id_outside_its_table_is_named_at_its_turn(make_spec: MakeSpec, tmp_path: Path, bad_id: int) -> None:
    def damage(indices: np.ndarray, labels: np.ndarray) -> None:
        indices[BATCH + 7, 1] = bad_id

    write_dataset(tmp_path, damage=damage)
    workload = build(make_spec(folder=tmp_path))
    message = rf"train sample {BATCH + 7}, sparse feature 1: id {bad_id} is outside its table of 3 rows"
    with pytest.raises(DatasetError, match=message):
        workload.train(5)
    assert workload.state()["step"] == 1, "the batch before the damaged one was trained"


@pytest.mark.parametrize("model", [{}, CAT, DCN], ids=["dot", "cat", "dcn"])
def test_phases_are_reported_and_change_nothing(make_spec: MakeSpec, model: dict[str, Any]) -> None:
    reporting, silent = build(make_spec(model=model)), build(make_spec(model=model))
    phases: list[DLRMPhase] = []
    with reporting.report_phases(phases.append):
        reporting.train(2)
    silent.train(2)
    assert is_same(flatten(reporting.state()), flatten(silent.state()))
    first = phases[: phases.index(DLRMPhase.DATA, 1)]
    assert first[0] == DLRMPhase.DATA
    assert set(DLRMPhase) - set(first) <= {
        DLRMPhase.OTHER,
        DLRMPhase.ZERO_GRAD,
        DLRMPhase.EMBEDDING_BACKWARD,
        DLRMPhase.REPLAY,
    }
    reporting.train(1)
    assert len(phases) == 2 * len(first) + 1, "nothing is reported any more; the two calls ended with OTHER"
    assert TRAIN_SAMPLES > 3 * BATCH
