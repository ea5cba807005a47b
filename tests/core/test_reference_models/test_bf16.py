"""On CPUs, which may emulate it, both implementations train in it, alike; weights, sums and optimizers stay fp32."""

from typing import Any

import pytest
import torch
from toy_clicks import MakeSpec, flatten, is_same

from reference_models.dlrm.optimized import OptimizedWorkload
from reference_models.dlrm.reference import ReferenceWorkload
from reference_models.fused.dense_parameters import DenseParameter
from reference_models.process.world import SingleProcess

pytestmark = pytest.mark.numeric

WIDE: dict[str, Any] = {"embedding_dim": 32, "bottom_mlp": [48, 32], "top_mlp": [64, 40, 1]}
DCN: dict[str, Any] = {"interaction": "dcn", "dcn_num_layers": 2, "dcn_low_rank_dim": 16}
MODELS = [{}, {"interaction": "cat"}, DCN, WIDE, WIDE | DCN]
MODEL_IDS = ["dot", "cat", "dcn", "dot wide", "dcn wide"]
TOLERANCE = 0.1
"""Of the distance between weights after 50 steps, as a share of the way that training took."""


def build(kind: type[ReferenceWorkload], make_spec: MakeSpec, precision: str, **options: Any) -> ReferenceWorkload:
    workload = kind(make_spec(runtime={"precision": precision}, **options), SingleProcess())
    workload.build()
    return workload


def weights(workload: ReferenceWorkload) -> torch.Tensor:
    return torch.cat([value.flatten() for value in workload.state()["model"].values()]).clone()


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS, ids=MODEL_IDS)
@pytest.mark.parametrize("opt_name", ["sgd", "adagrad", "rowwise_adagrad"])
def test_fifty_steps_lead_where_the_reference_under_autocast_comes(
    make_spec: MakeSpec, model: dict[str, Any], opt_name: str
) -> None:
    # Sums that start above zero: Adagrad's first steps are the gradient's sign alone, whatever it rounds to.
    adagrad = {"opt_base_learning_rate": 0.05, "opt_adagrad_initial_accumulator_value": 0.1}
    train = {"opt_name": opt_name, **({"opt_base_learning_rate": 0.2} if opt_name == "sgd" else adagrad)}
    theirs = build(ReferenceWorkload, make_spec, "bf16", model=model, train=train)
    ours = build(OptimizedWorkload, make_spec, "bf16", model=model, train=train)
    wide = build(OptimizedWorkload, make_spec, "fp32", model=model, train=train)
    before = weights(ours)
    assert torch.equal(before, weights(theirs)), "the same seed gives the same weights"
    for workload in (ours, theirs, wide):
        workload.train(50)
    way = (weights(theirs) - before).norm()
    assert (weights(ours) - weights(theirs)).norm() < TOLERANCE * way
    assert not torch.equal(weights(ours), weights(wide)), "bf16 rounds"
    assert ours.evaluate() == pytest.approx(theirs.evaluate(), abs=5e-3)
    states = flatten(ours.state()["optimizers"]), flatten(theirs.state()["optimizers"])
    assert [(a.shape, a.dtype) for a in states[0]] == [(b.shape, b.dtype) for b in states[1]]


@pytest.mark.slow
@pytest.mark.parametrize("model", [WIDE, WIDE | DCN], ids=["dot", "dcn"])
def test_products_are_bf16_but_for_the_logits_and_runs_repeat_bit_for_bit(
    make_spec: MakeSpec, model: dict[str, Any]
) -> None:
    ours = build(OptimizedWorkload, make_spec, "bf16", model=model)
    assert isinstance(ours, OptimizedWorkload)
    products = [entry.product for entry in ours.choose_matmul(None).products]
    logit = [product for product in products if product.precision == "fp32"]
    assert len(products) > 3 * len(logit) > 0
    assert all(product.num_out == 1 for product in logit if product.kind != "data_gradient")
    again = build(OptimizedWorkload, make_spec, "bf16", model=model)
    for workload in (ours, again):
        workload.train(5)
    assert is_same(flatten(ours.state()), flatten(again.state()))
    for layer in (*ours.model.bottom, *ours.model.top[:-1]):
        assert layer.weight.narrow is not None
        assert torch.equal(layer.weight.narrow, layer.weight.value.bfloat16()), "what products read is up to date"
    assert ours.model.top[-1].weight.narrow is None


@pytest.mark.parametrize("squares", [None, torch.full((3, 4), 0.5)], ids=["sgd", "adagrad"])
def test_an_update_from_a_bf16_gradient_is_made_in_fp32(squares: torch.Tensor | None) -> None:
    gradient = torch.linspace(-1, 1, 12).view(3, 4).bfloat16()
    updated = []
    for narrow in (None, torch.empty(3, 4, dtype=torch.bfloat16)):
        parameter = DenseParameter(torch.ones(3, 4), None if squares is None else squares.clone(), narrow)
        parameter.update(gradient if narrow is not None else gradient.float(), lr=1e-3, eps=1e-8)
        updated.append(parameter)
    assert torch.equal(updated[0].value, updated[1].value)
    assert updated[1].operand is updated[1].narrow and torch.equal(updated[1].operand, updated[1].value.bfloat16())
    assert updated[0].operand is updated[0].value
