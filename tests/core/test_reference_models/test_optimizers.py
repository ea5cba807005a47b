"""Optimizers equal loops over their formulas and stock PyTorch; the learning rate follows the reference."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from reference_models.config.sections import TrainConfig, parse_train
from reference_models.process.errors import ConfigError
from reference_models.training.optimizers import (
    LearningRatePolicy,
    SparseAdagrad,
    build_learning_rate_policy,
    build_optimizers,
    describe_optimizers,
    set_learning_rate,
)

pytestmark = pytest.mark.numeric

ROWS, DIM, STEPS = 7, 3, 6
ADAGRAD = {"lr": 0.1, "lr_decay": 0.01, "initial_accumulator_value": 0.2, "eps": 1e-8}


def train_config(opt_name: str, **keys: float) -> TrainConfig:
    return parse_train({"global_batch_size": 8, "opt_name": opt_name, "opt_base_learning_rate": 0.1, **keys})


def table(*, sparse: bool) -> nn.EmbeddingBag:
    bag = nn.EmbeddingBag(ROWS, DIM, mode="sum", sparse=sparse, dtype=torch.float64)
    nn.init.normal_(bag.weight, generator=torch.Generator().manual_seed(1))
    return bag


def train_table(bag: nn.EmbeddingBag, optimizer: torch.optim.Optimizer) -> torch.Tensor:
    """Weights after STEPS updates on bags that repeat ids within and between samples."""
    generator = torch.Generator().manual_seed(2)
    for _ in range(STEPS):
        ids = torch.randint(0, ROWS - 1, (10, 2), generator=generator)
        goal = torch.randn(10, DIM, generator=generator, dtype=torch.float64)
        optimizer.zero_grad()
        (bag(ids) - goal).pow(2).sum().backward()
        optimizer.step()
    return bag.weight.detach()


def test_sparse_adagrad_equals_torch_adagrad_on_dense_gradients() -> None:
    ours, theirs = table(sparse=True), table(sparse=False)
    trained = train_table(ours, SparseAdagrad(ours.parameters(), rowwise=False, **ADAGRAD))
    expected = train_table(theirs, torch.optim.Adagrad(theirs.parameters(), **ADAGRAD))
    torch.testing.assert_close(trained, expected, rtol=1e-12, atol=1e-12)
    assert not torch.equal(trained, table(sparse=True).weight)


@pytest.mark.parametrize("rowwise", [False, True])
def test_sparse_adagrad_equals_a_loop_over_its_formula(rowwise: bool) -> None:
    bag, other = table(sparse=True), table(sparse=True)
    optimizer = SparseAdagrad(bag.parameters(), rowwise=rowwise, **ADAGRAD)
    weight = bag.weight.detach().numpy().copy()
    total = np.full((ROWS, 1 if rowwise else DIM), ADAGRAD["initial_accumulator_value"])
    rng = np.random.default_rng(0)
    for step in range(1, STEPS + 1):
        ids = torch.from_numpy(rng.integers(0, ROWS, (4, 2)))
        factor = torch.from_numpy(rng.normal(size=(4, DIM)))
        bag.weight.grad = other.weight.grad = None
        (bag(ids) * factor).sum().backward()
        assert bag.weight.grad is not None
        grad = bag.weight.grad.to_dense().numpy()
        optimizer.step()
        lr = ADAGRAD["lr"] / (1 + (step - 1) * ADAGRAD["lr_decay"])
        for row in sorted(set(ids.flatten().tolist())):
            total[row] += np.mean(grad[row] ** 2) if rowwise else grad[row] ** 2
            weight[row] -= lr * grad[row] / (np.sqrt(total[row]) + ADAGRAD["eps"])
        np.testing.assert_allclose(bag.weight.detach().numpy(), weight, rtol=1e-12)


def test_rows_without_a_gradient_do_not_move() -> None:
    bag = table(sparse=True)
    before = bag.weight.detach().clone()
    train_table(bag, SparseAdagrad(bag.parameters(), rowwise=False, **ADAGRAD))
    assert torch.equal(bag.weight[ROWS - 1], before[ROWS - 1])


def test_rowwise_keeps_one_accumulator_per_row() -> None:
    bag = table(sparse=True)
    for rowwise, shape in ((True, (ROWS, 1)), (False, (ROWS, DIM))):
        optimizer = SparseAdagrad(bag.parameters(), rowwise=rowwise, **ADAGRAD)
        assert optimizer.state[bag.weight]["sum"].shape == shape


def test_sgd_equals_torch_sgd_on_dense_gradients() -> None:
    ours, theirs = table(sparse=True), table(sparse=False)
    sparse_sgd, _ = build_optimizers(
        train_config("sgd"), embedding_parameters=[ours.weight], dense_parameters=[nn.Parameter(torch.zeros(1))]
    )
    expected = train_table(theirs, torch.optim.SGD(theirs.parameters(), lr=0.1))
    torch.testing.assert_close(train_table(ours, sparse_sgd), expected, rtol=1e-12, atol=1e-12)


def test_learning_rate_warms_up_holds_decays_and_holds() -> None:
    policy = LearningRatePolicy(base=1.6, warmup_steps=4, decay_start_step=8, decay_steps=4)
    scales = [0.25, 0.5, 0.75, 0.75, 0.75, 0.75, 0.75, 1, 9 / 16, 1 / 4, 1 / 16, 1 / 16, 1 / 16]
    assert [policy.at(step) for step in range(1, 14)] == pytest.approx([1.6 * scale for scale in scales])


def test_learning_rate_without_decay_reaches_the_base_rate() -> None:
    policy = LearningRatePolicy(base=2.0, warmup_steps=2)
    assert [policy.at(step) for step in (1, 2, 3, 10**9)] == [1.0, 2.0, 2.0, 2.0]


def test_learning_rate_has_the_floor_of_the_reference() -> None:
    assert LearningRatePolicy(base=1e-4, decay_steps=1000).at(1000) == 1e-7


@given(
    base=st.floats(1e-6, 1e3),
    warmup_steps=st.integers(0, 50),
    gap=st.integers(0, 50),
    decay_steps=st.integers(0, 50),
    step=st.integers(1, 300),
)
def test_learning_rate_stays_between_floor_and_base(
    base: float, warmup_steps: int, gap: int, decay_steps: int, step: int
) -> None:
    policy = LearningRatePolicy(
        base=base, warmup_steps=warmup_steps, decay_start_step=warmup_steps + gap, decay_steps=decay_steps
    )
    assert min(1e-7, base / 50) <= policy.at(step) <= base
    if warmup_steps == decay_steps == 0:
        assert policy.at(step) == base


def test_decay_before_the_end_of_warm_up_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"step 3, before its warm-up of 5 steps"):
        LearningRatePolicy(base=1.0, warmup_steps=5, decay_start_step=3, decay_steps=2)


def test_policy_reads_the_keys_of_each_optimizer() -> None:
    sgd = train_config(
        "sgd",
        opt_learning_rate_warmup_steps=3,
        lr_decay_start_steps=5,
        sgd_opt_base_learning_rate=0.1,
        sgd_opt_learning_rate_decay_poly_power=2,
        sgd_opt_learning_rate_decay_steps=7,
    )
    adagrad = train_config(
        "adagrad",
        opt_learning_rate_warmup_steps=3,
        opt_learning_rate_decay_start_step=5,
        opt_learning_rate_decay_steps=7,
    )
    expected = LearningRatePolicy(base=0.1, warmup_steps=3, decay_start_step=5, decay_steps=7)
    assert build_learning_rate_policy(sgd) == build_learning_rate_policy(adagrad) == expected


def test_two_names_of_one_learning_rate_must_agree() -> None:
    with pytest.raises(ConfigError, match=r"sgd_opt_base_learning_rate is 0\.2.*opt_base_learning_rate 0\.1"):
        build_learning_rate_policy(train_config("sgd", sgd_opt_base_learning_rate=0.2))


def test_weight_decay_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"opt_weight_decay is 0\.5, expected 0"):
        build_optimizers(
            train_config("adagrad", opt_weight_decay=0.5),
            embedding_parameters=[nn.Parameter(torch.zeros(1, 1))],
            dense_parameters=[nn.Parameter(torch.zeros(1))],
        )


def describe(train: TrainConfig, change: dict[str, Any] | None = None) -> dict[str, int | float | str]:
    optimizers = build_optimizers(
        train,
        embedding_parameters=[nn.Parameter(torch.zeros(2, 2))],
        dense_parameters=[nn.Parameter(torch.zeros(2))],
    )
    for optimizer in optimizers:
        optimizer.param_groups[0].update(change or {})
    set_learning_rate(optimizers, 123.0)
    return describe_optimizers(train.opt_name, optimizers, build_learning_rate_policy(train))


@pytest.mark.parametrize("opt_name", ["adagrad", "rowwise_adagrad"])
def test_description_holds_the_keys_and_types_the_official_checker_asks_for(opt_name: str) -> None:
    described = describe(train_config(opt_name, opt_adagrad_epsilon=1e-8))
    assert described == {
        "opt_name": opt_name,
        "opt_base_learning_rate": 0.1,
        "opt_learning_rate_warmup_steps": 0,
        "opt_weight_decay": 0,
        "opt_adagrad_learning_rate_decay": 0,
        "opt_adagrad_initial_accumulator_value": 0,
        "opt_adagrad_epsilon": 1e-8,
        "opt_learning_rate_decay_start_step": 0,
        "opt_learning_rate_decay_steps": 0,
    }
    assert all(type(value) is int for key, value in described.items() if value == 0)


def test_description_of_sgd() -> None:
    described = describe(train_config("sgd", lr_decay_start_steps=5, sgd_opt_learning_rate_decay_steps=7))
    assert described == {
        "opt_name": "sgd",
        "opt_base_learning_rate": 0.1,
        "opt_learning_rate_warmup_steps": 0,
        "sgd_opt_base_learning_rate": 0.1,
        "sgd_opt_learning_rate_decay_poly_power": 2,
        "sgd_opt_learning_rate_decay_steps": 7,
        "lr_decay_start_steps": 5,
    }


def test_description_comes_from_the_built_groups_not_from_the_configuration() -> None:
    assert describe(train_config("adagrad"), {"eps": 1e-3})["opt_adagrad_epsilon"] == 1e-3
