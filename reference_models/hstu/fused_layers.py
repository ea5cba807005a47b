"""HSTU without padding: sequences of one shape together, candidates' rows alone in the last layer.

The reference pads, multiplies all pairs and throws away what the mask forbids. Here a batch is split into groups of
equal history and candidates; a token's scores are with the past alone, and a candidate's with itself are one sum of
products. Nobody reads the last layer's output at past events, so that layer asks for keys and values there alone.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from reference_models.hstu.model import HSTU, HSTULayer, refuse_long
from reference_models.hstu.sequences import Sequences


@dataclass(frozen=True, slots=True)
class Group:
    """S sequences of P past events and C candidates each; where their tokens are in the batch, all where None."""

    num_past: int
    num_candidates: int
    past: torch.Tensor | None
    """int64 [S * P]"""
    candidates: torch.Tensor | None
    """int64 [S * C]"""


def find_groups(batch: Sequences) -> Iterator[Group]:
    """Yield the groups of a batch, in the order of their first sequences."""
    shapes = list(zip(batch.past_lengths, batch.lengths, strict=True))
    different = list(dict.fromkeys(shapes))
    if len(different) == 1:
        yield Group(*shapes[0], None, None)
        return
    for shape in different:
        belongs = torch.tensor([other == shape for other in shapes])
        yield Group(*shape, *(_places(lengths, belongs) for lengths in (batch.past_lengths, batch.lengths)))


def _places(lengths: Sequence[int], belongs: torch.Tensor) -> torch.Tensor:
    return belongs.repeat_interleave(torch.tensor(lengths)).nonzero().squeeze(1)


class GatedAttention(torch.autograd.Function):
    """From projections to gates and attended values, one head after the other, without padding and without copies.

    `uvqk` [S, L, 4 I] are the projections of L tokens, the last C of which are candidates, and `past` [S, P, 2 I]
    values and keys of the past; without it, the past are the first P tokens of `uvqk`. Gives silu(u) and
    silu(q k' / sqrt(d)) v / n, [S, L, I] each.
    """

    @staticmethod
    def forward(
        ctx: Any, uvqk: torch.Tensor, past: torch.Tensor | None, num_candidates: int, num_heads: int, max_length: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        width = uvqk.shape[-1] // 4 // num_heads
        ctx.sizes = (width, num_candidates, width**-0.5, 1 / max_length)
        _, _, alpha, beta = ctx.sizes
        u, v, q, k = uvqk.chunk(4, dim=-1)
        first = uvqk.shape[1] - num_candidates  # of the candidates
        past_v, past_k = (v[:, :first], k[:, :first]) if past is None else past.chunk(2, dim=-1)
        attended = uvqk.new_empty(q.shape)
        kept = []
        for head in range(num_heads):
            part = slice(head * width, (head + 1) * width)
            scores = uvqk.new_empty(*q.shape[:2], past_k.shape[1])
            torch.baddbmm(scores, q[..., part], past_k[..., part].mT, beta=0, alpha=alpha, out=scores)
            weights = nn.functional.silu(scores)
            if past is None:
                weights.tril_()  # candidates come after the past, and see all of it
            torch.mul(torch.bmm(weights, past_v[..., part]), beta, out=attended[..., part])
            kept += [scores, weights]
        own_q, own_k, own_v = (own_part(each, first, num_heads, width) for each in (q, k, v))
        own_scores = (own_q * own_k).sum(-1, keepdim=True).mul_(alpha)
        own_part(attended, first, num_heads, width).add_(nn.functional.silu(own_scores) * own_v, alpha=beta)
        ctx.save_for_backward(uvqk, past, own_scores, *kept)
        return nn.functional.silu(u), attended

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        du, da = gradients
        width, num_candidates, alpha, beta = ctx.sizes
        uvqk, past, own_scores, *kept = ctx.saved_tensors
        u, v, q, k = uvqk.chunk(4, dim=-1)
        first, num_heads = uvqk.shape[1] - num_candidates, len(kept) // 2
        past_v, past_k = (v[:, :first], k[:, :first]) if past is None else past.chunk(2, dim=-1)
        d_uvqk = torch.empty_like(uvqk)
        d_past = None if past is None else torch.empty_like(past)
        d_u, d_v, d_q, d_k = d_uvqk.chunk(4, dim=-1)
        d_past_v, d_past_k = (d_v[:, :first], d_k[:, :first]) if d_past is None else d_past.chunk(2, dim=-1)
        torch.ops.aten.silu_backward.grad_input(du, u, grad_input=d_u)
        for head in range(num_heads):
            part, scores, weights = slice(head * width, (head + 1) * width), kept[2 * head], kept[2 * head + 1]
            d_scores = torch.bmm(da[..., part], past_v[..., part].mT)
            torch.ops.aten.silu_backward.grad_input(d_scores, scores, grad_input=d_scores)
            if past is None:
                d_scores.tril_()
            torch.mul(torch.bmm(d_scores, past_k[..., part]), alpha * beta, out=d_q[..., part])
            torch.mul(torch.bmm(d_scores.mT, q[..., part]), alpha * beta, out=d_past_k[..., part])
            torch.mul(torch.bmm(weights.mT, da[..., part]), beta, out=d_past_v[..., part])
        own_da, own_q, own_k, own_v, own_dq, own_dk, own_dv = (
            own_part(each, first, num_heads, width) for each in (da, q, k, v, d_q, d_k, d_v)
        )
        d_own = torch.ops.aten.silu_backward((own_da * own_v).sum(-1, keepdim=True), own_scores).mul_(alpha * beta)
        own_dq.add_(d_own * own_k)
        torch.mul(d_own, own_q, out=own_dk)
        torch.mul(nn.functional.silu(own_scores).mul_(beta), own_da, out=own_dv)
        return d_uvqk, d_past, None, None, None


def own_part(tokens: torch.Tensor, first: int, num_heads: int, width: int) -> torch.Tensor:
    """View the candidates, from token `first` on, of [S, L, H d] by head: [S, C, H, d]."""
    candidates = tokens[:, first:]
    return candidates.view(*candidates.shape[:2], num_heads, width)


class FusedHSTU(HSTU):
    """HSTU whose layers work on groups of sequences; names, values and the other parts are the same."""

    def encode(self, rows: torch.Tensor, batch: Sequences) -> torch.Tensor:
        """Run the layers group by group; returns the candidates [B, D]. Raises ValueError as the reference does."""
        refuse_long(batch, self.max_length)
        past, candidates = self.make_tokens(rows, batch)
        encoded = [(group, self._encode_group(past, candidates, group)) for group in find_groups(batch)]
        if len(encoded) == 1:
            users = encoded[0][1]
        else:
            places = torch.cat([group.candidates for group, _ in encoded if group.candidates is not None])
            users = torch.cat([each for _, each in encoded])[torch.argsort(places)]
        output: torch.Tensor = self.output_norm(users)
        return output

    def _encode_group(self, past: torch.Tensor, candidates: torch.Tensor, group: Group) -> torch.Tensor:
        if group.past is not None and group.candidates is not None:
            past, candidates = past[group.past], candidates[group.candidates]
        dim = past.shape[1]
        candidates = candidates.view(-1, group.num_candidates, dim)
        past = past.view(len(candidates), group.num_past, dim)
        x = torch.cat([past, candidates], dim=1)
        *inner_layers, last = self.layers
        for layer in inner_layers:
            x = run_layer(layer, x, None, group.num_candidates)
        past, candidates = x[:, : group.num_past], x[:, group.num_past :]
        return run_layer(last, candidates, past, group.num_candidates).reshape(-1, dim)


def run_layer(layer: nn.Module, x: torch.Tensor, past: torch.Tensor | None, num_candidates: int) -> torch.Tensor:
    """Transform tokens [S, L, D] as `HSTULayer` does; with `past` [S, P, D] they are candidates alone."""
    assert isinstance(layer, HSTULayer)
    normed = layer.input_norm(x)
    keys = None
    if past is not None:
        inner = layer.num_heads * layer.width
        weight, bias = layer.uvqk.weight.view(4, inner, -1)[1::2], layer.uvqk.bias.view(4, inner)[1::2]
        keys = nn.functional.linear(layer.input_norm(past), weight.reshape(2 * inner, -1), bias.reshape(-1))
    num_heads, inner = layer.num_heads, layer.num_heads * layer.width
    u, a = GatedAttention.apply(layer.uvqk(normed), keys, num_candidates, num_heads, layer.max_length)  # type: ignore[no-untyped-call]
    output = x.reshape(-1, x.shape[-1])
    for each, weight in zip((u, a, u * layer.output_norm(a)), layer.output.weight.split(inner, dim=1), strict=True):  # type: ignore[no-untyped-call]
        output = torch.addmm(output, each.view(-1, inner), weight.t())
    return output.view(x.shape)
