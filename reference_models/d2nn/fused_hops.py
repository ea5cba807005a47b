"""Propagation of light in the optical network that skips the Fourier transforms of dark rows. The backward pass is
written by hand.

A field is padded and cropped along one axis at a time. If the padded window is twice as wide as the grid, half of the
rows are dark before the first transform, and half of the rows are cropped after the last one. These rows are not
transformed.
"""

from typing import Any

import torch

from reference_models.d2nn.model import D2NN

CHUNK = 16
"""Number of light fields propagated at a time on a CPU: with a window of 64 cells they take half a megabyte and stay
in a core's cache."""


def travel(field: torch.Tensor, transfer: torch.Tensor) -> torch.Tensor:
    """Propagate light fields, complex [..., n, n], to the next plane as `model.propagate` does, without gradients."""
    n, window = field.shape[-1], transfer.shape[-1]
    travelled = torch.empty_like(field)
    size = CHUNK if field.device.type == "cpu" else field.numel()
    parts, outs = (torch.split(each.view(-1, n, n), size) for each in (field, travelled))
    for part, out in zip(parts, outs, strict=True):
        spectrum = torch.fft.fft(torch.fft.fft(part, window, dim=-2), window, dim=-1)
        spectrum *= transfer
        out.copy_(torch.fft.ifft(torch.fft.ifft(spectrum, dim=-1)[..., :n], dim=-2)[..., :n, :])
    return travelled


class MaskedHop(torch.autograd.Function):
    """Autograd function that shifts the phase of fields and propagates them to the next plane. The fields are complex
    [..., B, n, n]; a mask shifts them by `phase` float [..., 1, n, n].

    The backward pass propagates gradients by the conjugate transfer function. The gradient of a mask's cell is
    Im(conj(u) du), summed over the patterns, where u is the field behind the mask and du is the gradient of u.
    """

    @staticmethod
    def forward(ctx: Any, field: torch.Tensor, phase: torch.Tensor, transfer: torch.Tensor) -> torch.Tensor:
        shift = torch.polar(torch.ones_like(phase), phase)
        shifted = field * shift
        ctx.save_for_backward(shifted, shift, transfer)
        return travel(shifted, transfer)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        shifted, shift, transfer = ctx.saved_tensors
        d_shifted = travel(gradients[0].contiguous(), transfer.conj())
        d_phase = (shifted.conj() * d_shifted).sum(-3, keepdim=True).imag
        d_field = d_shifted.mul_(shift.conj()) if ctx.needs_input_grad[0] else None
        return d_field, d_phase, None


class FusedD2NN(D2NN):
    """Optical network that propagates the light of all tasks together; its weights, random mask errors and results
    are the same as those of its base class, D2NN."""

    def light_up(self, pixels: torch.Tensor) -> torch.Tensor:
        """Return the intensity of light behind all masks, float [B, T, n * n] (patterns, tasks, cells), of patterns
        [B, P]."""
        field = travel(self.make_field(pixels), self.transfer)
        for mask in self.shared:
            field = self._hop(field, self.add_errors(mask).unsqueeze(0))
        own = torch.stack([self.add_errors(mask) for masks in self.own for mask in masks]).view_as(self.own)
        fields = field.expand(len(own), *field.shape)
        for masks in own.unbind(1):
            fields = self._hop(fields, masks.unsqueeze(1))
        return (fields.real**2 + fields.imag**2).flatten(2).transpose(0, 1)

    def _hop(self, field: torch.Tensor, phase: torch.Tensor) -> torch.Tensor:
        travelled: torch.Tensor = MaskedHop.apply(field, phase, self.transfer)  # type: ignore[no-untyped-call]
        return travelled
