"""Simpler models that must miss the quality target calibrated with HSTU: they lack its attention layers, and a target
that one of them meets would be too easy."""

from collections.abc import Sequence

import torch
from torch import nn

from reference_models.hstu.config import HSTUConfig
from reference_models.hstu.model import HSTU, NORM_EPSILON
from reference_models.hstu.sequences import Sequences


class NoHistory(HSTU):
    """HSTU without layers: the head, which computes the logit, gets only the candidates' items, not the user's
    history."""

    def encode(self, rows: Sequence[torch.Tensor], batch: Sequences) -> torch.Tensor:
        """Return an output for each candidate that does not depend on the user's history: [B, D]."""
        encoded: torch.Tensor = self.output_norm(self.make_tokens(rows, batch)[1])
        return encoded


class MeanHistory(HSTU):
    """HSTU whose layers are replaced by an MLP, as wide as a layer, on the mean of the tokens of the user's
    history."""

    def __init__(self, config: HSTUConfig, *, num_items: int, num_artists: int) -> None:
        super().__init__(config, num_items=num_items, num_artists=num_artists)
        width = 4 * config.num_heads * config.attention_dim
        self.layers = nn.ModuleList(
            [nn.Linear(config.embedding_dim, width), nn.SiLU(), nn.Linear(width, config.embedding_dim)]
        )
        self.pooled_norm = nn.LayerNorm(config.embedding_dim, eps=NORM_EPSILON)

    def encode(self, rows: Sequence[torch.Tensor], batch: Sequences) -> torch.Tensor:
        """Return the MLP's output for each candidate's history, equal for all candidates of a sequence: [B, D]."""
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
    """Return, for each candidate of the batch, the index of the sequence that it belongs to: int64 [B]."""
    lengths = torch.tensor(batch.lengths, device=device)
    return torch.arange(len(lengths), device=device).repeat_interleave(lengths)
