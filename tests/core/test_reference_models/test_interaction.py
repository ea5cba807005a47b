"""Interactions equal plain loops over the papers' formulas."""

import numpy as np
import pytest
import torch

from reference_models.layers.interaction import CatInteraction, DotInteraction, LowRankCrossNet

pytestmark = pytest.mark.numeric


@pytest.fixture
def features() -> torch.Tensor:
    """Four vectors of dimension 3 for five samples."""
    return torch.randn(5, 4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


@pytest.mark.slow
def test_dot_is_the_dense_vector_then_the_strictly_lower_triangle_row_by_row(features: torch.Tensor) -> None:
    out = DotInteraction(4, 3)(features)
    for sample, row in zip(features, out, strict=True):
        pairs = [torch.dot(sample[i], sample[j]) for i in range(4) for j in range(i)]
        torch.testing.assert_close(row, torch.cat([sample[0], torch.stack(pairs)]))


def test_dot_width_is_dimension_plus_number_of_pairs() -> None:
    assert DotInteraction(27, 16).out_features == 16 + 26 * 27 // 2 == 367


def test_cat_puts_vectors_side_by_side(features: torch.Tensor) -> None:
    interaction = CatInteraction(4, 3)
    torch.testing.assert_close(interaction(features), torch.cat(features.unbind(1), dim=1))
    assert interaction.out_features == 12


def test_cross_net_equals_its_recurrence(features: torch.Tensor) -> None:
    cross = LowRankCrossNet(4, 3, num_layers=3, low_rank_dim=2).double()
    for bias in cross.bias:
        torch.nn.init.normal_(bias)
    x_0 = x_l = features.flatten(1).numpy()
    for layer in range(3):
        w, v, bias = (part[layer].detach().numpy() for part in (cross.w, cross.v, cross.bias))
        x_l = x_0 * (np.einsum("nr,rm,bm->bn", w, v, x_l) + bias) + x_l
    np.testing.assert_allclose(cross(features).detach().numpy(), x_l, rtol=1e-12)


def test_cross_net_starts_xavier_normal_without_bias() -> None:
    torch.manual_seed(0)
    cross = LowRankCrossNet(27, 16, num_layers=2, low_rank_dim=64)
    for w, v, bias in zip(cross.w, cross.v, cross.bias, strict=True):
        assert (w.shape, v.shape, bias.shape) == ((432, 64), (64, 432), (432,))
        assert w.std().item() == pytest.approx((2 / (432 + 64)) ** 0.5, rel=0.03)
        assert v.std().item() == pytest.approx((2 / (432 + 64)) ** 0.5, rel=0.03)
        assert not bias.any()


def test_cross_net_without_weights_is_the_identity(features: torch.Tensor) -> None:
    cross = LowRankCrossNet(4, 3, num_layers=2, low_rank_dim=2).double()
    for w in cross.w:
        torch.nn.init.zeros_(w)
    torch.testing.assert_close(cross(features), features.flatten(1))


@pytest.mark.parametrize("interaction", [DotInteraction(4, 3), CatInteraction(4, 3), LowRankCrossNet(4, 3, 2, 2)])
def test_gradients_match_finite_differences(interaction: torch.nn.Module, features: torch.Tensor) -> None:
    assert torch.autograd.gradcheck(interaction.double(), (features.requires_grad_(),))
