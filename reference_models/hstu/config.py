"""Torch-free configuration of HSTU: layer widths, layers, attention heads."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from reference_models.config.records import PositiveCount, read_section
from reference_models.config.sections import DataConfig
from reference_models.data.click_sequence.teacher import parse_parameters
from reference_models.process.errors import ConfigError

NUM_ACTIONS = 3
"""Number of values of an event's action: not clicked, clicked, and unknown (for candidates)."""
UNKNOWN_ACTION = 2
KIND = "click_sequence"


@dataclass(frozen=True, kw_only=True, slots=True)
class HSTUConfig:
    """Layer widths of a DLRMv4 (HSTU), and the length of its sequences."""

    embedding_dim: PositiveCount
    """Width of rows of the item table, and of tokens between layers."""
    num_layers: PositiveCount
    """Number of HSTU layers."""
    num_heads: PositiveCount
    """Number of heads of each layer's attention."""
    attention_dim: PositiveCount
    """Width of each head's queries, keys, values and gates."""
    item_mlp: PositiveCount
    """Hidden width of the MLP on a candidate's item embedding."""
    head_mlp: PositiveCount
    """Hidden width of the MLP that returns the logit from the outputs for user and item."""
    max_sequence_length: PositiveCount
    """Maximum number of events of a user's sequence: the history, followed by the candidates of a time window."""


def parse_model(table: Mapping[str, Any]) -> HSTUConfig:
    """Read HSTU's [model] section of a definition. Raises ConfigError naming the invalid field."""
    return read_section("model", table, HSTUConfig)


@dataclass(frozen=True, kw_only=True, slots=True)
class SequenceShape:
    """Shape of a user's full sequence: number of past events, and of candidates after them."""

    num_past: int
    num_candidates: int

    @property
    def length(self) -> int:
        return self.num_past + self.num_candidates


def sequence_shape(model: HSTUConfig, data: DataConfig) -> SequenceShape:
    """Return the shape of a full sequence: number of past events (history), and of candidates.

    Raises ConfigError for data without sequences, or if the sequence length leaves no room for a history.
    """
    if data.kind != KIND:
        raise ConfigError(f"data.kind is {data.kind!r}, expected {KIND!r}: a model of sequences trains on them.")
    candidates = parse_parameters(data).events_per_window
    if model.max_sequence_length <= candidates:
        raise ConfigError(
            f"model.max_sequence_length is {model.max_sequence_length}, expected more than "
            f"data.parameters.events_per_window ({candidates}): a window's candidates, and before them the history."
        )
    return SequenceShape(num_past=model.max_sequence_length - candidates, num_candidates=candidates)
