"""Light: none is lost where the grid's edges meet; in free space it is what direct integrals say, in float64."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch

from reference_models.d2nn.fused_hops import MaskedHop, travel
from reference_models.d2nn.model import free_space, propagate, transfer_function

pytestmark = pytest.mark.numeric

N, PITCH, WAVELENGTH = 16, 0.6, 0.75


def fields(number: int = 5) -> torch.Tensor:
    return torch.randn(number, N, N, dtype=torch.complex128, generator=torch.Generator().manual_seed(0))


def test_travelling_keeps_the_energy() -> None:
    """Parseval: with all modes travelling, |H| is 1 everywhere."""
    transfer = transfer_function(N, PITCH, WAVELENGTH, 20)
    assert torch.allclose(transfer.abs(), torch.ones(N, N, dtype=torch.float64), atol=1e-14)
    before = fields()
    after, spectrum = propagate(before, transfer), torch.fft.fft2(before)
    energy = before.abs().square().sum((1, 2))
    torch.testing.assert_close(after.abs().square().sum((1, 2)), energy, rtol=1e-13, atol=0)
    torch.testing.assert_close(spectrum.abs().square().sum((1, 2)) / N**2, energy, rtol=1e-13, atol=0)


def test_modes_beyond_the_wavelength_vanish_where_a_pitch_lets_them_be() -> None:
    transfer = transfer_function(N, 0.4, WAVELENGTH, 20)
    assert transfer.abs().min() < 1e-10 and transfer.abs().max() == pytest.approx(1)


def test_two_distances_one_after_the_other_are_their_sum() -> None:
    first, second, both = (transfer_function(N, PITCH, WAVELENGTH, z) for z in (7.3, 12.7, 20.0))
    torch.testing.assert_close(first * second, both, rtol=0, atol=1e-12)
    before = fields()
    torch.testing.assert_close(
        propagate(propagate(before, first), second), propagate(before, both), rtol=0, atol=1e-12
    )
    back = transfer_function(N, PITCH, WAVELENGTH, -20.0)
    torch.testing.assert_close(propagate(propagate(before, both), back), before, rtol=0, atol=1e-12)


def test_the_transfer_function_is_the_formula_written_as_loops() -> None:
    found = transfer_function(4, PITCH, WAVELENGTH, 3.0)
    for row, y in enumerate((0, 1, -2, -1)):
        for column, x in enumerate((0, 1, -2, -1)):
            along = math.sqrt(1 / WAVELENGTH**2 - (y / (4 * PITCH)) ** 2 - (x / (4 * PITCH)) ** 2)
            expected = complex(math.cos(2 * math.pi * 3 * along), math.sin(2 * math.pi * 3 * along))
            assert complex(found[row, column]) == pytest.approx(expected, abs=1e-12)


# free space


def integrate_response(distance: float, num_nodes: int = 240) -> torch.Tensor:
    """The impulse response between cells, complex128 [2 N - 1, 2 N - 1] by offset: the integral of
    exp(2 pi i (z sqrt(1/lambda^2 - f^2) + f x)) over all frequencies that cells can show, by Gauss and Legendre."""
    nodes, weights = np.polynomial.legendre.leggauss(num_nodes)
    frequency = torch.from_numpy(nodes) / (2 * PITCH)
    weighted = torch.from_numpy(weights) / 2
    along = torch.sqrt(1 / WAVELENGTH**2 - frequency.unsqueeze(1) ** 2 - frequency**2)
    waves = torch.polar(torch.outer(weighted, weighted), 2 * math.pi * distance * along)
    offsets = torch.arange(1 - N, N, dtype=torch.float64) * PITCH
    shifts = torch.exp(2j * math.pi * torch.outer(offsets, frequency))
    return shifts @ waves @ shifts.T


def add_up(before: torch.Tensor, response: torch.Tensor) -> torch.Tensor:
    """Sum over all cells what each sends to each: no transform, no window, no edges."""
    cells = torch.arange(N)
    offset = cells.unsqueeze(1) - cells + N - 1  # [to, from]
    between = response[offset[:, None, :, None], offset[None, :, None, :]]  # [y, x, from y, from x]
    return torch.einsum("yxab,nab->nyx", between, before)


def error_of(found: torch.Tensor, expected: torch.Tensor) -> float:
    return float((found - expected).abs().square().sum() / expected.abs().square().sum()) ** 0.5


@pytest.mark.parametrize("distance", [5.0, 14.0])
def test_light_in_free_space_is_the_sum_of_integrals(distance: float) -> None:
    """However wide the window; without padding it is far off."""
    before = fields()
    expected = add_up(before, integrate_response(distance))
    torch.testing.assert_close(expected, add_up(before, integrate_response(distance, 300)), rtol=0, atol=1e-10)
    for padding in (2, 3, 4, 8):
        found = propagate(before, free_space(N, padding, PITCH, WAVELENGTH, distance))
        assert error_of(found, expected) < 0.01
    assert error_of(propagate(before, transfer_function(N, PITCH, WAVELENGTH, distance)), expected) > 0.3


def test_a_window_padded_with_zeros_alone_comes_to_free_space_as_it_grows() -> None:
    """Its errors fall with the square of its width, 4 times for each doubling: light that the sharp end of the
    grid's frequencies spreads comes in again. A window of 2 with the response of free space has none of it that one
    of 8 has not."""
    before = fields()
    expected = add_up(before, integrate_response(14.0))
    windows = (2, 4, 8, 16)
    plain = [
        error_of(propagate(before, transfer_function(width * N, PITCH, WAVELENGTH, 14.0)), expected)
        for width in windows
    ]
    for wide, wider in pairwise(plain):
        assert wider < wide / 2.5
    found = error_of(propagate(before, free_space(N, 2, PITCH, WAVELENGTH, 14.0)), expected)
    assert found == pytest.approx(plain[2], rel=1e-6) and found < plain[0] / 8


def test_a_beam_is_what_rayleigh_and_sommerfelds_integral_says() -> None:
    """Of a smooth beam, which cells show as it is, the sum of spherical wavelets z / r (1 / (2 pi r) - i / lambda)
    exp(2 pi i r / lambda) / r: no frequencies are in it at all."""
    grid, distance, width = 32, 14.0, 1.6
    cells = (torch.arange(grid, dtype=torch.float64) - grid / 2 + 0.5) * PITCH
    profile = torch.exp(-((cells - 0.9) ** 2) / width**2)
    beam = torch.outer(torch.exp(-(cells**2) / width**2), profile).to(torch.complex128)
    dy = (cells.unsqueeze(1) - cells)[:, None, :, None]
    dx = (cells.unsqueeze(1) - cells)[None, :, None, :]
    r = torch.sqrt(dx**2 + dy**2 + distance**2)
    wavelets = distance / r**2 * (1 / (2 * math.pi * r) - 1j / WAVELENGTH) * torch.exp(2j * math.pi * r / WAVELENGTH)
    expected = PITCH**2 * torch.einsum("yxab,ab->yx", wavelets, beam)
    found = propagate(beam, free_space(grid, 2, PITCH, WAVELENGTH, distance))
    assert error_of(found, expected) < 2e-3


def test_a_window_without_room_for_all_offsets_is_refused() -> None:
    with pytest.raises(ValueError, match="padding is 1, expected at least 2"):
        free_space(N, 1, PITCH, WAVELENGTH, 14.0)


# without dark rows


@pytest.mark.parametrize("padding", [1, 2, 3])
def test_transforms_without_dark_rows_are_the_same_forward_and_backward(padding: int) -> None:
    light = (PITCH, WAVELENGTH, 14.0)
    transfer = free_space(N, padding, *light) if padding > 1 else transfer_function(N, *light)
    before, weights = fields(37).requires_grad_(), fields(37)
    mask = torch.randn(1, N, N, dtype=torch.float64, generator=torch.Generator().manual_seed(2)).requires_grad_()
    expected = propagate(before, transfer)
    torch.testing.assert_close(travel(before.detach(), transfer), expected.detach(), rtol=0, atol=1e-12)
    results = []
    for hop in (MaskedHop.apply, lambda field, phase, t: propagate(field * torch.exp(1j * phase), t)):
        after = hop(before, mask, transfer)
        loss = (after * weights).real.sum() + after.abs().square().sum()
        results.append((after, *torch.autograd.grad(loss, (before, mask))))
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)
