"""Models that a calibrated target must be out of reach of: what HSTU is without its layers."""

from collections.abc import Sequence

import torch
from torch import nn

from reference_models.hstu.config import HSTUConfig
from reference_models.hstu.model import HSTU, NORM_EPSILON
from reference_models.hstu.sequences import Sequences


class NoHistory(HSTU):
    """The candidates' items alone go through the head: what is known without knowing who asks."""

    def encode(self, rows: Sequence[torch.Tensor], batch: Sequences) -> torch.Tensor:
        """Return a token of each candidate, and nothing of the past: [B, D]."""
        encoded: torch.Tensor = self.output_norm(self.make_tokens(rows, batch)[1])
        return encoded


class MeanHistory(HSTU):
    """The mean of the history's tokens, through an MLP as wide as a layer, takes the layers' place."""

    def __init__(self, config: HSTUConfig, *, num_items: int, num_artists: int) -> None:
        super().__init__(config, num_items=num_items, num_artists=num_artists)
        width = 4 * config.num_heads * config.attention_dim
        self.layers = nn.ModuleList(
            [nn.Linear(config.embedding_dim, width), nn.SiLU(), nn.Linear(width, config.embedding_dim)]
        )
        self.pooled_norm = nn.LayerNorm(config.embedding_dim, eps=NORM_EPSILON)

    def encode(self, rows: Sequence[torch.Tensor], batch: Sequences) -> torch.Tensor:
        """Return of each candidate what its history's mean gives, the same for all of a sequence: [B, D]."""
        past, _ = self.make_tokens(rows, batch)
        lengths = torch.tensor(batch.past_lengths, device=past.device)
        sequence = torch.arange(len(lengths), device=past.device).repeat_interleave(lengths)
        pooled = past.new_zeros(len(lengths), past.shape[1]).index_add(0, sequence, past)
        x = self.pooled_norm(pooled / lengths.clamp(min=1).unsqueeze(1))
        for layer in self.layers:
            x = layer(x)
        encoded: torch.Tensor = self.output_norm(x)[sequence_of_candidates(batch, past.device)]
        return encoded


def sequence_of_candidates(batch: Sequences, device: torch.device) -> torch.Tensor:
    """Return the sequence of each candidate: int64 [B]."""
    lengths = torch.tensor(batch.lengths, device=device)
    return torch.arange(len(lengths), device=device).repeat_interleave(lengths)
