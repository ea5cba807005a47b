"""HSTU (Zhai et al., 2024) as in MLPerf Training v6.1's DLRMv4, in plain PyTorch.

Each event of a user's history becomes a token, the sum of rows for item, artist, action and age. Candidates follow,
with an unknown action and age 0. Layers of gated attention without softmax transform the tokens; a candidate attends
to the whole history and itself, never to another candidate. The output at a candidate, times an MLP of the sum of its
item's and artist's rows, goes through a head to the logit of a click."""

import math
from collections.abc import Sequence

import torch
from torch import nn

from reference_models.hstu.config import NUM_ACTIONS, UNKNOWN_ACTION, HSTUConfig
from reference_models.hstu.phases import HSTUPhase
from reference_models.hstu.sequences import Sequences
from reference_models.training.phases import Enter, enter_before_backward, ignore_phase

NORM_EPSILON = 1e-6
LOSS_WEIGHT = 0.2
"""Factor by which the loss multiplies the cross-entropy of clicks, its only term, as in MLPerf's reference code."""


class HSTULayer(nn.Module):
    """HSTU layer x + [u, a, u * LN(a)] W', u, v, q, k = LN(x) W + b, u = silu(u), a = silu(q k' / sqrt(d)) v /
    max_length.

    D is the width between layers, H heads have width d. Masked pairs are left out of the sums.
    """

    def __init__(self, config: HSTUConfig) -> None:
        super().__init__()
        self.num_heads, self.width, self.max_length = (
            config.num_heads,
            config.attention_dim,
            config.max_sequence_length,
        )
        inner = config.num_heads * config.attention_dim
        self.input_norm = nn.LayerNorm(config.embedding_dim, eps=NORM_EPSILON)
        self.uvqk = nn.Linear(config.embedding_dim, 4 * inner)
        self.output_norm = nn.LayerNorm(inner, eps=NORM_EPSILON)
        self.output = nn.Linear(3 * inner, config.embedding_dim, bias=False)
        nn.init.xavier_uniform_(self.uvqk.weight)
        nn.init.zeros_(self.uvqk.bias)
        nn.init.xavier_uniform_(self.output.weight)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Return tokens [S, L, D] transformed by the layer; `mask` float [S, L, L] is 1 where the row attends to the
        column."""
        u, v, q, k = self.uvqk(self.input_norm(x)).chunk(4, dim=-1)
        u = nn.functional.silu(u)
        q, k, v = (part.unflatten(-1, (self.num_heads, self.width)).transpose(1, 2) for part in (q, k, v))
        scores = nn.functional.silu(q @ k.transpose(-1, -2) * self.width**-0.5) / self.max_length
        attended = (scores * mask.unsqueeze(1)) @ v
        a = attended.transpose(1, 2).flatten(-2)
        output: torch.Tensor = x + self.output(torch.cat([u, a, u * self.output_norm(a)], dim=-1))
        return output


class SwishLayerNorm(nn.Module):
    """Activation x * sigmoid(LN(x)), with a layer norm LN inside the gate."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width, eps=NORM_EPSILON)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.sigmoid(self.norm(x))


class HSTU(nn.Module):
    """HSTU click model: item and artist tables, HSTU layers, an MLP of the candidate's item, and a head.

    Built on torch's default device from its global generator.
    """

    def __init__(self, config: HSTUConfig, *, num_items: int, num_artists: int) -> None:
        super().__init__()
        dim = config.embedding_dim
        self.max_length = config.max_sequence_length
        self.enter: Enter = ignore_phase
        self.item_table = nn.Embedding(num_items, dim, sparse=True)
        self.artist_table = nn.Embedding(num_artists, dim, sparse=True)
        self.actions = nn.Parameter(torch.empty(NUM_ACTIONS, dim))
        self.ages = nn.Parameter(torch.empty(self.max_length, dim))
        for table in (*self.embedding_parameters(), self.actions, self.ages):
            nn.init.uniform_(table, -1 / math.sqrt(len(table)), 1 / math.sqrt(len(table)))
        self.layers = nn.ModuleList([HSTULayer(config) for _ in range(config.num_layers)])
        self.output_norm = nn.LayerNorm(dim, eps=NORM_EPSILON)
        self.item_mlp = nn.Sequential(
            nn.Linear(dim, config.item_mlp),
            SwishLayerNorm(config.item_mlp),
            nn.Linear(config.item_mlp, dim),
            nn.LayerNorm(dim, eps=NORM_EPSILON),
        )
        self.head = nn.Sequential(
            nn.Linear(dim, config.head_mlp), SwishLayerNorm(config.head_mlp), nn.Linear(config.head_mlp, 1)
        )
        for module in (*self.item_mlp, *self.head):
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)

    def forward(self, batch: Sequences) -> torch.Tensor:
        """Return the logits of a click, float [B], of a batch's candidates."""
        self.enter(HSTUPhase.EMBEDDING_FORWARD)
        rows = self.read_rows(batch)
        self.enter(HSTUPhase.LAYERS_FORWARD)
        parts = torch.split(rows, [len(batch.past_items), len(batch.items)])
        users = self.encode(parts, batch)
        self.enter(HSTUPhase.HEAD_FORWARD)
        logits = self.judge(users, parts[1])
        enter_before_backward(
            self.enter,
            {HSTUPhase.EMBEDDING_BACKWARD: rows, HSTUPhase.LAYERS_BACKWARD: users, HSTUPhase.HEAD_BACKWARD: logits},
        )
        return logits

    def read_rows(self, batch: Sequences) -> torch.Tensor:
        """Return the sums of item row and artist row of each event, [T + B, D]: past events first, then
        candidates."""
        items: torch.Tensor = self.item_table(torch.cat([batch.past_items, batch.items]))
        artists: torch.Tensor = self.artist_table(torch.cat([batch.past_artists, batch.artists]))
        return items + artists

    def encode(self, rows: Sequence[torch.Tensor], batch: Sequences) -> torch.Tensor:
        """Run the layers over padded sequences of history and candidates; return the outputs at the candidates [B,
        D].

        `rows` are those of past events [T, D] and of candidates [B, D]. Raises ValueError for a sequence longer than
        max_sequence_length.
        """
        refuse_long(batch, self.max_length)
        past, candidates = self.make_tokens(rows, batch)
        is_past, is_candidate = (
            find_valid_places(batch.past_lengths, past.device),
            find_valid_places(batch.lengths, past.device),
        )
        x = torch.cat([pad(past, is_past), pad(candidates, is_candidate)], dim=1)
        mask = make_attention_mask(is_past, is_candidate).to(x.dtype)
        for layer in self.layers:
            x = layer(x, mask)
        output: torch.Tensor = self.output_norm(x[:, is_past.shape[1] :][is_candidate])
        return output

    def make_tokens(self, rows: Sequence[torch.Tensor], batch: Sequences) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the tokens of past events [T, D] and candidates [B, D]: the sum of an event's item and artist rows,
        `rows`, times sqrt(D), plus the rows of its action and age."""
        past, candidates = (part * math.sqrt(part.shape[1]) for part in rows)
        past = past + self.actions[batch.past_actions] + self.ages[batch.past_ages]
        return past, candidates + (self.actions[UNKNOWN_ACTION] + self.ages[0])

    def judge(self, users: torch.Tensor, items: torch.Tensor) -> torch.Tensor:
        """Return the candidates' logits [B] from the layers' output at the candidates [B, D] and the sums of the
        candidates' item and artist rows [B, D]."""
        logits: torch.Tensor = self.head(users * self.item_mlp(items))
        return logits.squeeze(1)

    def embedding_parameters(self) -> list[nn.Parameter]:
        return [*self.item_table.parameters(), *self.artist_table.parameters()]

    def dense_parameters(self) -> list[nn.Parameter]:
        return [parameter for name, parameter in self.named_parameters() if "_table." not in name]


def refuse_long(batch: Sequences, max_length: int) -> None:
    """Raise ValueError for a sequence of the batch that is longer than `max_length` events."""
    longest = max(past + candidates for past, candidates in zip(batch.past_lengths, batch.lengths, strict=True))
    if longest > max_length:
        raise ValueError(f"a sequence of {longest} events and candidates, expected at most {max_length}")


def find_valid_places(lengths: Sequence[int], device: torch.device) -> torch.Tensor:
    """Return which positions of sequences, padded to the longest, hold a token: bool [S, longest]."""
    return torch.arange(max(lengths), device=device) < torch.tensor(lengths, device=device).unsqueeze(1)


def pad(tokens: torch.Tensor, is_token: torch.Tensor) -> torch.Tensor:
    """Return tokens [S, L, D], padded with zeros, of the tokens [T, D] of all sequences one after another."""
    padded = tokens.new_zeros(*is_token.shape, tokens.shape[1])
    padded[is_token] = tokens
    return padded


def make_attention_mask(is_past: torch.Tensor, is_candidate: torch.Tensor) -> torch.Tensor:
    """Return the attention mask of padded sequences, bool [S, P + C, P + C].

    A past event attends to earlier events and itself, a candidate to all past events and itself.
    """
    num_past, num_all = is_past.shape[1], is_past.shape[1] + is_candidate.shape[1]
    place = torch.arange(num_all, device=is_past.device)
    is_allowed = (place <= place.unsqueeze(1)) & (place < num_past)  # columns of past events
    is_allowed = is_allowed | torch.eye(num_all, dtype=torch.bool, device=is_past.device)
    is_token = torch.cat([is_past, is_candidate], dim=1)
    return is_allowed & is_token.unsqueeze(1) & is_token.unsqueeze(2)
