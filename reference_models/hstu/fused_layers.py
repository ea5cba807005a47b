"""HSTU without padding: sequences of equal shape are computed together, the last layer only for candidates.

The reference implementation pads sequences, multiplies all pairs of positions and discards the masked pairs. This
module splits a batch into groups of sequences with equal numbers of past events and candidates. Matrix products give
the attention scores with past events only; a candidate's score with itself is computed separately, as a dot product.
The output of the last layer is read at candidates only. So at past events the last layer computes only keys and
values.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from reference_models.fused.merged_embedding import find_run_starts
from reference_models.hstu.config import UNKNOWN_ACTION
from reference_models.hstu.model import HSTU, NORM_EPSILON, HSTULayer, refuse_long
from reference_models.hstu.sequences import Sequences


@dataclass(frozen=True, slots=True)
class SequenceGroup:
    """Group of S sequences of a batch with equally many past events (P) and candidates (C); indices of their
    tokens."""

    num_past: int
    num_candidates: int
    past: torch.Tensor | None
    """Indices of the group's past events' tokens in the batch, int64 [S * P], for a group of sequences. None if the
    group is the whole batch, in order."""
    candidates: torch.Tensor | None
    """Indices of the group's candidate tokens in the batch, int64 [S * C], for a group of sequences. None if the
    group is the whole batch, in order."""


def find_groups(batch: Sequences) -> Iterator[SequenceGroup]:
    """Yield groups of the batch's sequences with equal shapes, in the order of their first sequences."""
    shapes = list(zip(batch.past_lengths, batch.lengths, strict=True))
    different = list(dict.fromkeys(shapes))
    if len(different) == 1:
        yield SequenceGroup(*shapes[0], None, None)
        return
    for shape in different:
        belongs = torch.tensor([other == shape for other in shapes])
        yield SequenceGroup(*shape, *(_places(lengths, belongs) for lengths in (batch.past_lengths, batch.lengths)))


def _places(lengths: Sequence[int], belongs: torch.Tensor) -> torch.Tensor:
    return belongs.repeat_interleave(torch.tensor(lengths)).nonzero().squeeze(1)


class GatedAttention(torch.autograd.Function):
    """Attention of an HSTU layer from projections to output, head by head, without padding and with few copies.

    The batch has S sequences of L tokens `x` [S, L, D], of which the last C are candidates. `uvqk` [S, L, 4 I] has
    the projections u, v, q and k, each I wide. `past` [S, P, 2 I] has values and keys of past events; if it is None,
    the past events are the first P tokens of `uvqk`. `gain` and `shift` [I] belong to the layer norm LN, and W is [D,
    3 I].

    With u replaced by silu(u), and a = silu(q k' / sqrt(d)) v / n for heads of width d and n positions, the result is
    x + [u, a, u * LN(a)] W'.
    """

    @staticmethod
    def forward(
        ctx: Any, uvqk: torch.Tensor, past: torch.Tensor | None, x: torch.Tensor, gain: torch.Tensor,
        shift: torch.Tensor, weight: torch.Tensor, num_candidates: int, num_heads: int, max_length: int,
    ) -> torch.Tensor:  # fmt: skip
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
                weights.tril_()  # candidates come after the past events, and attend to all of them
            torch.mul(torch.bmm(weights, past_v[..., part]), beta, out=attended[..., part])
            kept += [scores, weights]
        heads = heads_of_columns(uvqk, num_heads)
        own_scores = ((q[:, first:] * k[:, first:]) @ heads).mul_(alpha)
        attended[:, first:].addcmul_(nn.functional.silu(own_scores) @ heads.t(), v[:, first:], value=beta)
        joined = uvqk.new_empty(*uvqk.shape[:2], 3 * width * num_heads)
        gates, copied, gated = joined.chunk(3, dim=-1)
        torch.ops.aten.silu.out(u, out=gates)
        copied.copy_(attended)
        normed, mean, scale = torch.native_layer_norm(attended, gain.shape, gain, shift, NORM_EPSILON)
        torch.mul(gates, normed, out=gated)
        ctx.save_for_backward(
            uvqk, past, gain, shift, weight, attended, joined, normed, mean, scale, own_scores, *kept
        )
        return torch.addmm(x.reshape(-1, x.shape[-1]), joined.flatten(0, 1), weight.t()).view(x.shape)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        width, num_candidates, alpha, beta = ctx.sizes
        uvqk, past, gain, shift, weight, attended, joined, normed, mean, scale, own_scores, *kept = ctx.saved_tensors
        d_output = gradients[0].reshape(-1, weight.shape[0])
        d_weight = d_output.t() @ joined.flatten(0, 1)
        d_gates, d_copied, d_gated = (d_output @ weight).view(joined.shape).chunk(3, dim=-1)
        du = torch.addcmul(d_gates, d_gated, normed)
        d_normed = d_gated * joined[..., : normed.shape[-1]]
        da, d_gain, d_shift = torch.ops.aten.native_layer_norm_backward(
            d_normed, attended, gain.shape, mean, scale, gain, shift, [True, True, True]
        )
        da.add_(d_copied)
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
        heads = heads_of_columns(uvqk, num_heads)
        d_own = torch.ops.aten.silu_backward((da[:, first:] * v[:, first:]) @ heads, own_scores) @ heads.t()
        d_own.mul_(alpha * beta)
        d_q[:, first:].addcmul_(d_own, k[:, first:])
        torch.mul(d_own, q[:, first:], out=d_k[:, first:])
        own_weights = nn.functional.silu(own_scores).mul_(beta) @ heads.t()
        torch.mul(own_weights, da[:, first:], out=d_v[:, first:])
        return d_uvqk, d_past, gradients[0], d_gain, d_shift, d_weight, None, None, None


def heads_of_columns(uvqk: torch.Tensor, num_heads: int) -> torch.Tensor:
    """Return the matrix [I, H] that is 1 where a column belongs to a head, else 0.

    A product with the matrix sums the columns of each head; a product with its transpose copies each head's value to
    its columns. A product is faster than a sum or broadcast over so few columns as a head has.
    """
    eye = torch.eye(num_heads, dtype=uvqk.dtype, device=uvqk.device)
    return eye.repeat_interleave(uvqk.shape[-1] // 4 // num_heads, dim=0)


class AddedRows(torch.autograd.Function):
    """Autograd function: sum of rows [N, D] of two tables, by ids [N] in each. Gradients are sparse, with each row
    once."""

    @staticmethod
    def forward(
        ctx: Any, first: torch.Tensor, second: torch.Tensor, first_ids: torch.Tensor, second_ids: torch.Tensor
    ) -> torch.Tensor:
        ctx.save_for_backward(first_ids, second_ids)
        ctx.sizes = (first.shape, second.shape)
        return first.index_select(0, first_ids).add_(second.index_select(0, second_ids))

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        made = (sum_by_row(ids, gradients[0], size) for ids, size in zip(ctx.saved_tensors, ctx.sizes, strict=True))
        return *made, None, None


def sum_by_row(ids: torch.Tensor, gradient: torch.Tensor, size: torch.Size) -> torch.Tensor:
    """Return a coalesced sparse gradient of a table from [N, D]: for each row of the table among `ids` [N], the sum
    of its gradients."""
    ordered, order = torch.sort(ids, stable=True)
    starts = find_run_starts(ordered)
    sum_runs = _SUMS.get(gradient.device.type, _sum_runs)
    values = sum_runs(gradient, order, starts)
    indices = ordered.index_select(0, starts).unsqueeze(0)
    # The rows are sorted; torch 2.11 warns unless it is told whether to check.
    with torch.sparse.check_sparse_tensor_invariants(False):  # type: ignore[no-untyped-call]
        return torch.sparse_coo_tensor(indices, values, size, is_coalesced=True)


def _sum_runs(gradient: torch.Tensor, order: torch.Tensor, starts: torch.Tensor) -> torch.Tensor:
    """Return the sums of runs of gradient rows, [number of runs, D]. `order` [n] lists row numbers of `gradient` [N,
    D]; a run is the part of `order` from one position in `starts` to the next."""
    return torch.embedding_bag(gradient, order, starts, mode=0)[0]


def _sum_runs_in_pieces(gradient: torch.Tensor, order: torch.Tensor, starts: torch.Tensor) -> torch.Tensor:
    """Return the sums of runs of gradient rows on a GPU; the result is as from `_sum_runs`.

    Runs are cut into pieces. First each piece is summed, then the sums of a run's pieces. If each run were summed in
    one go, one GPU thread would add it up, which is slow for a table row that is looked up often.
    """
    edges = torch.arange(0, len(order), _PIECE, device=order.device)
    pieces = torch.cat([starts, edges]).sort()[0]  # a start that is also an edge makes an empty piece
    firsts = torch.searchsorted(pieces, starts)
    sums = _sum_runs(gradient, order, pieces)
    return _sum_runs(sums, torch.arange(len(pieces), device=order.device), firsts)


_SUMS = {"cuda": _sum_runs_in_pieces}
_PIECE = 128
"""Maximum number of gradient rows that a GPU thread sums one after the other, out of all gradient rows of one table
row; an estimate, not measured."""


class FusedHSTU(HSTU):
    """HSTU whose layers compute groups of equally long sequences without padding; all else is as in its base class
    HSTU."""

    def read_rows(self, batch: Sequences) -> torch.Tensor:
        """Return the sums of item row and artist row of each event, [T + B, D]: past events first, then
        candidates."""
        items, artists = torch.cat([batch.past_items, batch.items]), torch.cat([batch.past_artists, batch.artists])
        rows: torch.Tensor = AddedRows.apply(self.item_table.weight, self.artist_table.weight, items, artists)  # type: ignore[no-untyped-call]
        return rows

    def make_tokens(self, rows: Sequence[torch.Tensor], batch: Sequences) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the tokens of past events [T, D] and of candidates [B, D], with action and age looked up in a joint
        table."""
        past, candidates = rows
        scale = math.sqrt(past.shape[1])
        both = (self.actions.unsqueeze(1) + self.ages).flatten(0, 1)
        ids = torch.add(batch.past_ages, batch.past_actions, alpha=len(self.ages))
        past = torch.add(nn.functional.embedding(ids, both), past, alpha=scale)
        return past, torch.add(both[UNKNOWN_ACTION * len(self.ages)], candidates, alpha=scale)

    def encode(self, rows: Sequence[torch.Tensor], batch: Sequences) -> torch.Tensor:
        """Run the layers group by group; return the outputs at the candidates [B, D].

        Raises ValueError for a sequence longer than max_sequence_length.
        """
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

    def _encode_group(self, past: torch.Tensor, candidates: torch.Tensor, group: SequenceGroup) -> torch.Tensor:
        if group.past is not None and group.candidates is not None:
            past, candidates = past[group.past], candidates[group.candidates]
        dim = past.shape[1]
        candidates = candidates.view(-1, group.num_candidates, dim)
        past = past.view(len(candidates), group.num_past, dim)
        x = torch.cat([past, candidates], dim=1)
        *inner_layers, last = self.layers
        for layer in inner_layers:
            x = run_layer(layer, x, None, group.num_candidates)
        past, candidates = torch.split(x, [group.num_past, group.num_candidates], dim=1)
        return run_layer(last, candidates, past, group.num_candidates).flatten(0, 1)


def run_layer(layer: nn.Module, x: torch.Tensor, past: torch.Tensor | None, num_candidates: int) -> torch.Tensor:
    """Return tokens [S, L, D] transformed by an HSTU layer. If `past` [S, P, D] is given, it has the past events, and
    the tokens are only candidates."""
    assert isinstance(layer, HSTULayer)
    normed = layer.input_norm(x)
    keys = None
    if past is not None:
        inner = layer.num_heads * layer.width
        weight, bias = layer.uvqk.weight.view(4, inner, -1)[1::2], layer.uvqk.bias.view(4, inner)[1::2]
        keys = nn.functional.linear(layer.input_norm(past), weight.reshape(2 * inner, -1), bias.reshape(-1))
    uvqk, norm = layer.uvqk(normed), layer.output_norm
    others = (each.to(uvqk.dtype) for each in (x, norm.weight, norm.bias, layer.output.weight))
    output: torch.Tensor = GatedAttention.apply(  # type: ignore[no-untyped-call]
        uvqk, keys, *others, num_candidates, layer.num_heads, layer.max_length
    )
    return output
