"""A diffractive optical network (Lin et al., 2018) for several tasks (Li et al., 2021), in plain PyTorch.

A pattern is the phase of a plane wave. The wave travels from plane to plane by the angular spectrum method: in free
space if the grid is padded, else on a grid that wraps around. At each plane a mask shifts the phase of each cell by a
trained amount. The first masks are shared by all tasks; each of the last masks belongs to one task. Behind the last
masks the light falls on detectors, one per class. The predicted class is the class of the detector with the most
light; a class's probability is its detector's share of all detected light.
"""

import math

import torch
from torch import nn

from reference_models.d2nn.config import D2NNConfig, columns
from reference_models.d2nn.phases import D2NNPhase
from reference_models.data.patterns.teacher import PatternShape
from reference_models.training.phases import Enter, enter_before_backward, ignore_phase

INITIAL_PHASE = 0.1
"""Standard deviation of the initial phases of the masks' cells, in radians. It is so small that the masks hardly
change the light at first; training then starts equally well with all seeds."""
FREE_WINDOW = 8
"""Width, as a multiple of the grid's width, of the window in which the response of free space to light from one cell
is approximated."""
LEAST_LIGHT = 1e-20
"""Least amount of light on a detector, so that the logarithm of a dark detector is finite."""


def transfer_function(grid: int, pitch: float, wavelength: float, distance: float) -> torch.Tensor:
    """Return the transfer function between two planes at a distance z, for light of wavelength lambda: exp(2 pi i z
    sqrt(1/lambda^2 - f^2)), complex128 [grid, grid].

    Frequencies f are in torch.fft's order. Waves with f above 1/lambda decay with distance.
    """
    frequency = torch.fft.fftfreq(grid, pitch, dtype=torch.float64)
    squared = 1 / wavelength**2 - frequency.unsqueeze(1) ** 2 - frequency**2
    along = torch.sqrt(squared.to(torch.complex128))
    return torch.exp(2j * math.pi * distance * along)


def free_space(grid: int, padding: int, pitch: float, wavelength: float, distance: float) -> torch.Tensor:
    """Return the transfer function of free space for a padded grid, complex128 [padding * grid, padding * grid].

    It is the Fourier transform of the impulse response (the field at one cell due to light at another), cut off
    beyond the largest distance between two cells of a grid. A padding of 2 is therefore exact for all light that
    reaches the grid, at any angle. Raises ValueError for a padding below 2, at which light would wrap around onto the
    grid.
    """
    if padding < 2:
        raise ValueError(f"padding is {padding}, expected at least 2")
    window, wide = padding * grid, max(padding, FREE_WINDOW) * grid
    response = torch.fft.ifft2(transfer_function(wide, pitch, wavelength, distance))
    offsets = torch.arange(1 - grid, grid)
    cut = torch.zeros(window, window, dtype=torch.complex128)
    to, of = offsets % window, offsets % wide
    cut[to.unsqueeze(1), to] = response[of.unsqueeze(1), of]
    found: torch.Tensor = torch.fft.fft2(cut)
    return found


def propagate(field: torch.Tensor, transfer: torch.Tensor) -> torch.Tensor:
    """Propagate the optical network's light fields, complex [..., n, n], to its next plane. They are zero-padded to
    the size of the transfer function `transfer`, complex [m, m], m >= n, and light outside of the grid is cropped.
    With m = n nothing is cropped: the grid wraps around."""
    n, window = field.shape[-1], transfer.shape
    travelled: torch.Tensor = torch.fft.ifft2(torch.fft.fft2(field, s=window) * transfer)
    return travelled[..., :n, :n]


def make_detectors(grid: int, num_classes: int) -> torch.Tensor:
    """Return the square detectors of the classes as masks, float [grid * grid, K]. The grid is divided into a place
    for each class; a detector is half as wide as its place."""
    side = columns(num_classes)
    cell, rows = grid // side, -(-num_classes // side)
    row_height, width = grid // rows, cell // 2
    detectors = torch.zeros(num_classes, grid, grid)
    for number in range(num_classes):
        row, column = divmod(number, side)
        top, left = row * row_height + (row_height - width) // 2, column * cell + (cell - width) // 2
        detectors[number, top : top + width, left : left + width] = 1
    return detectors.flatten(1).T.contiguous()


class D2NN(nn.Module):
    """Diffractive network: masks that all tasks share, masks of each task, and a detector for each class.

    Built on torch's default device from its global generator.
    """

    transfer: torch.Tensor
    detectors: torch.Tensor

    def __init__(self, config: D2NNConfig, shape: PatternShape) -> None:
        super().__init__()
        self.config, self.shape = config, shape
        self.enter: Enter = ignore_phase
        self.noise: torch.Generator | None = None
        """Random generator of the phase errors of the masks' cells; None for torch's global generator."""
        grid = config.grid
        self.shared = nn.Parameter(INITIAL_PHASE * torch.randn(config.num_shared_masks, grid, grid))
        self.own = nn.Parameter(INITIAL_PHASE * torch.randn(shape.num_tasks, config.num_task_masks, grid, grid))
        light = (config.pitch_mm, config.wavelength_mm, config.distance_mm)
        transfer = free_space(grid, config.padding, *light) if config.padding > 1 else transfer_function(grid, *light)
        self.register_buffer("transfer", transfer.to(self.own.device, torch.complex64), persistent=False)
        self.register_buffer("detectors", make_detectors(grid, shape.num_classes), persistent=False)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """Return the optical network's logits, float [B, T, K], for B input patterns [B, P], T tasks and K classes:
        the logarithm of the light on each class's detector."""
        self.enter(D2NNPhase.PROPAGATION_FORWARD)
        intensity = self.light_up(pixels)
        self.enter(D2NNPhase.DETECTION_FORWARD)
        light = intensity @ self.detectors
        logits = light.float().clamp_min(LEAST_LIGHT).log()
        enter_before_backward(
            self.enter, {D2NNPhase.PROPAGATION_BACKWARD: intensity, D2NNPhase.DETECTION_BACKWARD: logits}
        )
        return logits

    def light_up(self, pixels: torch.Tensor) -> torch.Tensor:
        """Return the intensity of light behind all masks, float [B, T, n * n] (patterns, tasks, cells), of patterns
        [B, P]."""
        field = propagate(self.make_field(pixels), self.transfer)
        for mask in self.shared:
            field = self.pass_mask(field, mask)
        ends = []
        for masks in self.own:
            end = field
            for mask in masks:
                end = self.pass_mask(end, mask)
            ends.append(end)
        return torch.stack([end.real**2 + end.imag**2 for end in ends], 1).flatten(2)

    def make_field(self, pixels: torch.Tensor) -> torch.Tensor:
        """Return the light waves, complex [B, n, n], of patterns [B, P]: phase 0 at a dark pixel, pi at a bright
        pixel."""
        times, side = self.config.grid // self.shape.side, self.shape.side
        phases = math.pi * pixels.reshape(-1, side, side)
        phases = phases.repeat_interleave(times, 1).repeat_interleave(times, 2)
        return torch.polar(torch.ones_like(phases), phases)

    def pass_mask(self, field: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Shift the phase of light fields by a mask [n, n], with random errors of its cells, and propagate the
        light."""
        mask = self.add_errors(mask)
        return propagate(field * torch.polar(torch.ones_like(mask), mask), self.transfer)

    def add_errors(self, mask: torch.Tensor) -> torch.Tensor:
        """Return a mask [n, n] with newly drawn random errors added to the phases of its cells."""
        if not self.config.mask_noise:
            return mask
        errors = torch.randn(mask.shape, generator=self.noise, device=mask.device)
        return mask + self.config.mask_noise * errors
