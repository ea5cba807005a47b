"""Layers start from the distributions of the reference codes and have the shapes the papers draw."""

import math

import pytest
import torch
from torch import nn

from reference_models.layers.mlp import build_embedding_bag, build_mlp, init_linear_dlrm, init_linear_torchrec

pytestmark = pytest.mark.numeric


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


def test_mlp_has_a_relu_after_each_layer_but_none_after_a_logit() -> None:
    kinds = [type(layer) for layer in build_mlp(13, (8, 4), init_linear_dlrm, ends_in_logit=False)]
    assert kinds == [nn.Linear, nn.ReLU, nn.Linear, nn.ReLU]
    kinds = [type(layer) for layer in build_mlp(13, (8, 1), init_linear_dlrm, ends_in_logit=True)]
    assert kinds == [nn.Linear, nn.ReLU, nn.Linear]


def test_dlrm_linear_is_normal_with_the_reference_deviations() -> None:
    torch.manual_seed(0)
    linear = nn.Linear(300, 500)
    init_linear_dlrm(linear)
    assert linear.weight.std().item() == pytest.approx(math.sqrt(2 / 800), rel=0.01)
    assert linear.bias.std().item() == pytest.approx(math.sqrt(1 / 500), rel=0.1)
    assert linear.weight.mean().item() == pytest.approx(0, abs=1e-3)
    outside_two_deviations = (linear.weight.abs() > 2 * math.sqrt(2 / 800)).float().mean().item()
    assert outside_two_deviations == pytest.approx(0.0455, abs=0.003), "a normal, not a uniform"


def test_torchrec_linear_equals_the_default_of_nn_linear() -> None:
    torch.manual_seed(3)
    default = nn.Linear(64, 512)
    ours = nn.Linear(64, 512)
    init_linear_torchrec(ours)
    for mine, theirs in ((ours.weight, default.weight), (ours.bias, default.bias)):
        assert mine.abs().max() <= 1 / 8
        assert mine.std().item() == pytest.approx(theirs.std().item(), rel=0.1)
        assert mine.std().item() == pytest.approx(1 / 8 / math.sqrt(3), rel=0.1)


@pytest.mark.parametrize("rows", [1, 4, 10_000])
def test_embedding_rows_are_uniform_within_one_over_root_rows(rows: int) -> None:
    torch.manual_seed(0)
    weight = build_embedding_bag(rows, 16).weight
    bound = 1 / math.sqrt(rows)
    assert weight.shape == (rows, 16)
    assert weight.requires_grad
    assert weight.abs().max() <= bound
    assert weight.abs().max() > 0.5 * bound
    if rows > 1000:
        assert weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.02)


def test_embedding_bag_sums_its_rows_and_gives_a_sparse_gradient() -> None:
    bag = build_embedding_bag(5, 3)
    out = bag(torch.tensor([[0, 4], [2, 2]]))
    weight = bag.weight.detach()
    torch.testing.assert_close(out.detach(), torch.stack([weight[0] + weight[4], 2 * weight[2]]))
    out.sum().backward()
    assert bag.weight.grad is not None
    assert bag.weight.grad.is_sparse
    assert bag.weight.grad.to_dense().tolist() == [[1.0] * 3, [0.0] * 3, [2.0] * 3, [0.0] * 3, [1.0] * 3]
