"""Wukong: its order, its special case, its costs, and the optimized implementation beside the reference."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from rounding import crossing_of, is_as_near, sway, sway_of, turn
from torch import nn
from torch.utils.flop_counter import FlopCounterMode
from toy_clicks import SMOOTH, MakeSpec, flatten

from reference_models.config.sections import DataConfig, parse_train
from reference_models.data.registry import parse_data
from reference_models.data.store.dataset import Batch
from reference_models.dlrm.phases import DLRMPhase
from reference_models.fused.matmul import Matmuls
from reference_models.layers.mlp import init_linear_torchrec
from reference_models.process.errors import ConfigError
from reference_models.process.world import SingleProcess
from reference_models.registry import find_implementation, find_model
from reference_models.training.optimizers import build_optimizers
from reference_models.training.workload import WorkloadSpec
from reference_models.wukong.config import WukongConfig, follow, parse_model
from reference_models.wukong.fused_stack import FusedWukong
from reference_models.wukong.model import Wukong
from reference_models.wukong.spec import SPEC
from reference_models.wukong.stack import FactorizationMachineBlock, WukongLayer, WukongStack

pytestmark = pytest.mark.numeric
TABLE: dict[str, Any] = {
    "embedding_dim": 4,
    "bottom_mlp": [8, 4],
    "top_mlp": [16, 1],
    "num_layers": 3,
    "num_fmb": 3,
    "num_lcb": 2,
    "rank": 2,
    "fmb_mlp": [12, 7],
}
SAME_WIDTH = TABLE | {"num_fmb": 2, "num_lcb": 2}
"""Of the four vectors of `TABLES`, so that no layer has a residual map."""
TABLES: dict[str, Any] = {"num_dense": 4, "num_embeddings": (40, 1, 7), "multi_hot": (1, 1, 3)}
MODELS = {"maps": TABLE, "identity": SAME_WIDTH, "one layer": TABLE | {"num_layers": 1}}


@contextmanager
def in_double() -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def batches(num_steps: int, size: int = 64) -> Iterator[Batch]:
    generator = torch.Generator().manual_seed(3)
    limits = torch.tensor(TABLES["num_embeddings"]).repeat_interleave(torch.tensor(TABLES["multi_hot"]))
    for _ in range(num_steps):
        indices = (torch.rand(size, len(limits), generator=generator) * limits).long()
        labels = torch.randint(2, (size,), generator=generator).to(torch.get_default_dtype())
        yield Batch(torch.randn(size, TABLES["num_dense"], generator=generator), indices, labels)


def reference_step(model: Wukong, optimizers: Sequence[torch.optim.Optimizer], batch: Batch) -> torch.Tensor:
    loss = nn.functional.binary_cross_entropy_with_logits(model(batch.dense, batch.indices), batch.labels)
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss.backward()
    for optimizer in optimizers:
        optimizer.step()
    return loss.detach()


def weights_of(model: nn.Module) -> torch.Tensor:
    return torch.cat([value.flatten() for value in model.state_dict().values()])


def relative_distance(first: nn.Module, second: nn.Module) -> float:
    """|a - b| / |a| over all weights, whose names must agree too."""
    assert list(first.state_dict()) == list(second.state_dict())
    return float((weights_of(first) - weights_of(second)).norm() / weights_of(first).norm())


class _Nothing(nn.Module):
    """A residual of zero."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.zeros(())


def polynomial_stack(num_layers: int, n: int, d: int) -> WukongStack:
    """A stack without norms and residuals, whose MLPs are the identity: n x d products are n vectors."""
    stack = WukongStack(n, d, num_layers, num_fmb=n, num_lcb=1, rank=d, mlp=(), init=init_linear_torchrec)
    for number, layer in enumerate(stack.layers):
        assert isinstance(layer, WukongLayer)
        width = n if number == 0 else n + 1
        layer.fmb = FactorizationMachineBlock(width, width, d, d, (), init_linear_torchrec)
        layer.fmb.norm, layer.fmb.mlp = nn.Identity(), nn.Identity()  # type: ignore[assignment]
        layer.norm, layer.residual = nn.Identity(), _Nothing()  # type: ignore[assignment]
        layer.lcb = _Zero(1)  # type: ignore[assignment]
        if number:
            layer.lcb = _Zero(0)  # type: ignore[assignment]
    return stack


class _Zero(nn.Module):
    """A linear compression with a weight of zero."""

    def __init__(self, num_out: int) -> None:
        super().__init__()
        self._num_out = num_out

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.new_zeros(len(x), self._num_out, x.shape[2])


@pytest.mark.parametrize("num_layers", [1, 2, 3])
def test_without_norms_and_residuals_a_stack_is_homogeneous_of_degree_two_to_its_layers(num_layers: int) -> None:
    with in_double():
        torch.manual_seed(0)
        stack = polynomial_stack(num_layers, 5, 3)
        x = torch.randn(7, 5, 3)
        for factor in (0.5, 1.7):
            expected = factor ** (2**num_layers) * stack(x)
            assert torch.allclose(stack(factor * x), expected, rtol=1e-9, atol=1e-12)
        assert float(stack(x).detach().abs().max()) > 1e-6


def test_a_block_that_projects_nothing_is_the_whole_factorization_machine() -> None:
    """With k = n and Y the identity its products are those of all pairs; a factorization machine sums them."""
    with in_double():
        torch.manual_seed(0)
        block = FactorizationMachineBlock(6, 2, 3, 6, (4,), init_linear_torchrec)
        with torch.no_grad():
            block.project.weight.copy_(torch.eye(6))
        x = torch.randn(5, 6, 3)
        pairs = block.products(x)
        machine = 0.5 * (x.sum(1).square() - x.square().sum(1)).sum(1)  # Rendle, 2010
        assert torch.allclose(pairs.triu(1).sum((1, 2)), machine)
        assert torch.allclose(pairs, torch.einsum("bid,bjd->bij", x, x))


def test_a_layer_is_its_formula() -> None:
    """Term by term, as `stack.py` writes it, from the layer's own weights."""
    with in_double():
        torch.manual_seed(0)
        layer = WukongLayer(5, 3, num_fmb=4, num_lcb=2, rank=2, mlp=(8,), init=init_linear_torchrec)
        assert isinstance(layer.residual, nn.Module)
        x = torch.randn(3, 5, 3)
        for made, one in zip(layer(x), x, strict=True):
            projected = one.t() @ layer.fmb.project.weight.t()
            products = layer.fmb.norm((one @ projected).flatten())
            machine = layer.fmb.mlp(products).reshape(4, 3)
            before = torch.cat([machine, layer.lcb.weight @ one]) + layer.residual.weight @ one
            centred = before - before.mean(1, keepdim=True)
            expected = centred / (before.var(1, unbiased=False, keepdim=True) + layer.norm.eps).sqrt()
            assert torch.allclose(made, expected)


# costs


def data_of(multi_hot: tuple[int, ...], num_dense: int = 13) -> DataConfig:
    sizes = {"num_embeddings": [10] * len(multi_hot), "multi_hot": list(multi_hot), "num_dense": num_dense}
    return parse_data({"kind": "mlperf_multi_hot", "name": "any", **sizes})


def configurations() -> list[WukongConfig]:
    changes: list[dict[str, Any]] = [
        {},
        {"num_layers": 1},
        {"num_layers": 4, "rank": 7},
        {"fmb_mlp": [5]},
        {"num_fmb": 1, "num_lcb": 4},
        {"embedding_dim": 9, "bottom_mlp": [9], "top_mlp": [1]},
    ]
    return [parse_model(TABLE | change) for change in changes]


@pytest.mark.slow
@pytest.mark.parametrize("model", configurations(), ids=str)
@pytest.mark.parametrize("multi_hot", [(1,), (1, 3, 2, 1), (1,) * 26])
def test_flop_and_parameters_are_those_of_the_module(model: WukongConfig, multi_hot: tuple[int, ...]) -> None:
    data, batch_size = data_of(multi_hot), 6
    costs = SPEC.costs.model(model, data)
    with torch.device("meta"):
        sizes = {"num_embeddings": [10] * data.num_sparse, "multi_hot": data.multi_hot}
        built = Wukong(model, num_dense=data.num_dense, **sizes)
        ids = torch.zeros(batch_size, data.num_lookups, dtype=torch.int64)
        with FlopCounterMode(display=False) as counter:
            logits = built(torch.zeros(batch_size, data.num_dense), ids)
            forward = counter.get_total_flops()
            logits.sum().backward()
    assert forward == batch_size * costs.forward_flop_per_sample
    assert counter.get_total_flops() == batch_size * costs.training_flop_per_sample
    assert sum(matmul.flop for matmul in SPEC.costs.matmuls(model, data, batch_size)) == counter.get_total_flops()
    assert costs.num_dense_parameters == sum(parameter.numel() for parameter in built.dense_parameters())
    by_phase = SPEC.costs.phases(model, data, batch_size=batch_size, opt_name="adagrad", unique_rows=5)
    assert sum(each.matmul_flop for each in by_phase.values()) == counter.get_total_flops()
    assert set(by_phase) == set(DLRMPhase) - {DLRMPhase.REPLAY, DLRMPhase.ZERO_GRAD, DLRMPhase.OTHER}


def test_forward_flop_is_the_published_formula() -> None:
    """Products of n k d, twice, the MLP and the linear compression of each layer, and the MLPs around them."""
    model, data = parse_model(SAME_WIDTH), data_of((1, 1, 1), num_dense=5)
    n, d, k = 4, 4, 2
    layer = 2 * n * k * d + n * k * 12 + 12 * 7 + 7 * 2 * d + n * 2 * d
    head = 5 * 8 + 8 * 4 + n * d * 16 + 16
    assert SPEC.costs.model(model, data).forward_flop_per_sample == 2 * (3 * layer + head)


def test_memory_grows_with_what_is_kept_for_the_backward_pass() -> None:
    data = data_of((1, 1, 1))
    train = parse_train({"global_batch_size": 64, "opt_name": "adagrad", "opt_base_learning_rate": 0.1})
    one, two = (
        SPEC.costs.memory(parse_model(TABLE | {"num_layers": number}), data, train, eval_samples=100)
        for number in (1, 2)
    )
    n, d = 5, 4
    kept = 2 * n * d + 2 * d + n * 2 + (n * 2 + 12 + 7 + 12) + n * d
    assert two.activations_bytes - one.activations_bytes == 64 * 4 * kept
    assert two.weights_bytes - one.weights_bytes == two.optimizer_bytes - one.optimizer_bytes > 0


# the optimized implementation


def pair(model: WukongConfig, opt_name: str) -> tuple[Any, Any]:
    train = parse_train({"global_batch_size": 64, "opt_name": opt_name, "opt_base_learning_rate": 0.01})
    built: list[Any] = []
    for kind in (Wukong, FusedWukong):
        torch.manual_seed(1)
        made = kind(model, **TABLES)
        optimizers = build_optimizers(
            train, embedding_parameters=made.embedding_parameters(), dense_parameters=made.dense_parameters()
        )
        built.append((made, optimizers))
    built[1][0].fuse(built[1][1])
    return built[0], built[1]


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("opt_name", ["sgd", "adagrad", "rowwise_adagrad"])
def test_twenty_steps_lead_to_the_references_weights(model: dict[str, Any], opt_name: str) -> None:
    with in_double():
        (plain, optimizers), (fused, _) = pair(parse_model(model), opt_name)
        assert relative_distance(plain, fused) == 0, "the same seed gives the same weights"
        for batch in batches(20):
            expected = plain(batch.dense, batch.indices).detach()
            assert torch.allclose(fused.logits(batch), expected, rtol=1e-8, atol=1e-8)
            loss = reference_step(plain, optimizers, batch)
            assert float(fused.train_step(batch)) == pytest.approx(float(loss), rel=1e-8)
        assert relative_distance(plain, fused) < 1e-8
        last = next(batches(1, size=13))
        assert torch.allclose(fused.logits(last), plain(last.dense, last.indices), rtol=1e-7, atol=1e-8)


def train_plain(num_steps: int, is_turned: bool) -> list[torch.Tensor]:
    """The weights of the plain module after so many steps of SGD."""
    (plain, optimizers), _ = pair(parse_model(TABLE), "sgd")
    if is_turned:
        turn(plain.state_dict().values())
    for batch in batches(num_steps):
        reference_step(plain, optimizers, batch)
    return [value.detach().clone() for value in plain.state_dict().values()]


def crossing(num_steps: int) -> float:
    return crossing_of(train_plain(0, False), train_plain(num_steps, False), num_steps, batch=64)


@pytest.mark.slow
def test_in_fp32_steps_lead_where_rounding_leaves_them() -> None:
    _, (fused, _) = pair(parse_model(TABLE), "sgd")
    for batch in batches(20):
        fused.train_step(batch)
    assert is_as_near(fused.state_dict().values(), *sway(partial(train_plain, 20), 20, crossing=crossing(20)))


def test_narrow_products_stay_near_the_references() -> None:
    """The MLPs' operands are bfloat16, all else is not; the state is the reference's by its names."""
    (plain, optimizers), (fused, fused_optimizers) = pair(parse_model(TABLE), "sgd")
    fused.fuse(fused_optimizers, Matmuls(dtype=torch.bfloat16))
    before = weights_of(plain).clone()
    for batch in batches(20):
        reference_step(plain, optimizers, batch)
        fused.train_step(batch)
    way = float((weights_of(plain) - before).norm() / before.norm())
    assert 0 < relative_distance(plain, fused) < 0.2 * way


def wukong_spec(spec: WorkloadSpec) -> WorkloadSpec:
    return replace(spec, model=parse_model(TABLE))


@pytest.mark.slow
def test_both_implementations_train_the_same_by_the_protocol(make_spec: MakeSpec) -> None:
    def build(name: str) -> Any:
        spec = make_spec(train=SMOOTH["adagrad"], runtime={"implementation": name})
        workload = find_implementation("wukong", name).load(wukong_spec(spec), SingleProcess())
        workload.build()
        return workload

    found = [build("reference"), build("optimized")]
    for workload in found:
        workload.train(10)
        entered: list[str] = []
        with workload.report_phases(entered.append):
            workload.train(2)
        assert set(entered) <= set(find_model("wukong").phases)
        assert {DLRMPhase.INTERACTION_FORWARD, DLRMPhase.INTERACTION_BACKWARD, DLRMPhase.TOP_MLP_BACKWARD} <= set(
            entered
        )
    reference, optimized = found
    assert optimized.evaluate() == pytest.approx(reference.evaluate(), abs=1e-3)
    bound = sway_of(reference, lambda: build("reference"), 12, read=lambda of: flatten(of.weights()))
    assert is_as_near(flatten(optimized.weights()), *bound)


def test_a_step_in_fixed_tensors_makes_the_references_updates() -> None:
    """What a CUDA graph is captured of."""
    _, (fused, fused_optimizers) = pair(parse_model(TABLE), "sgd")
    fused.fuse(fused_optimizers, Matmuls(keeps_results=False))
    fused.prepare(64)
    for batch in batches(10):
        fused.train_on_tensors(batch, torch.tensor([0.01, 0.01]))
    assert is_as_near(fused.state_dict().values(), *sway(partial(train_plain, 10), 10, crossing=crossing(10)))


# definitions


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_layer": 2}, r"unknown key model.num_layer. Did you mean 'num_layers'"),
        ({"num_layers": 0}, r"model.num_layers is 0, expected a whole number of at least 1"),
        ({"fmb_mlp": []}, r"model.fmb_mlp is \[\], expected a list of whole numbers"),
        ({"bottom_mlp": [8, 5]}, r"a last width of model.embedding_dim \(4\)"),
        ({"top_mlp": [8, 2]}, r"a last width of 1, the logit"),
        ({"interaction": "dot"}, r"unknown key model.interaction"),
        ({"init": "torchrek"}, r"model.init is 'torchrek'. Did you mean 'torchrec'"),
    ],
)
def test_what_a_definition_may_not_say(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_model(TABLE | change)
    with pytest.raises(ConfigError, match=r"model\.rank is missing"):
        parse_model({key: value for key, value in TABLE.items() if key != "rank"})


def test_a_width_is_all_of_a_layers_vectors_and_its_rank() -> None:
    made = follow(TABLE | {"width": 6}, {"width"})
    assert (made["num_fmb"], made["num_lcb"], made["rank"]) == (6, 6, 6)
    assert "width" not in made
    with pytest.raises(ConfigError, match=r"model.rank cannot be set beside it"):
        follow(TABLE | {"width": 6}, {"width", "rank"})
    assert follow(TABLE | {"embedding_dim": 6}, {"embedding_dim"})["bottom_mlp"] == [8, 6]
