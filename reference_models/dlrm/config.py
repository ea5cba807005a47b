"""Torch-free configuration of DLRM: kind of interaction, and layer widths."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

from reference_models.config.records import Counts, PositiveCount, read_section, refuse


class MLPWidths(Protocol):
    """Layer widths of a model with tables, bottom MLP, interaction and top MLP, without the widths inside the
    interaction."""

    @property
    def embedding_dim(self) -> int: ...

    @property
    def bottom_mlp(self) -> tuple[int, ...]: ...

    @property
    def top_mlp(self) -> tuple[int, ...]: ...

    @property
    def init(self) -> str: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class DLRMConfig:
    """Layer widths of a DLRM, written as in the papers: `bottom_mlp` begins with the first layer's outputs, and
    `top_mlp` ends in 1."""

    interaction: Literal["dot", "dcn", "cat"]
    """Interaction: `dot` products of all pairs (DLRM), `dcn` low-rank cross layers (DLRM-DCNv2), `cat` none."""
    embedding_dim: PositiveCount
    """Width of embedding rows."""
    bottom_mlp: Counts
    """Widths of the bottom MLP's layers, which dense features pass; the last is embedding_dim."""
    top_mlp: Counts
    """Widths of the top MLP's layers, which follow the interaction; the last is 1, the logit."""
    dcn_num_layers: PositiveCount = 0
    """Number of cross layers; required with `dcn`, refused otherwise."""
    dcn_low_rank_dim: PositiveCount = 0
    """Rank of the cross layers' weights; required with `dcn`, refused otherwise."""
    init: Literal["dlrm", "torchrec"] = "dlrm"
    """Project whose initial distribution the MLPs have: `dlrm` (facebookresearch/dlrm) or `torchrec`."""


def parse_model(table: Mapping[str, Any]) -> DLRMConfig:
    """Read DLRM's [model] section of a definition. Raises ConfigError naming the invalid field."""
    model = read_section("model", table, DLRMConfig)
    if model.bottom_mlp[-1] != model.embedding_dim:
        raise refuse("model", table, "bottom_mlp", f"a last width of model.embedding_dim ({model.embedding_dim})")
    if model.top_mlp[-1] != 1:
        raise refuse("model", table, "top_mlp", "a last width of 1, the logit")
    cross = ("dcn_num_layers", "dcn_low_rank_dim")
    if model.interaction != "dcn" and any(key in table for key in cross):
        raise refuse("model", table, "interaction", "'dcn' where dcn_num_layers or dcn_low_rank_dim are given")
    if model.interaction == "dcn":
        for key in cross:
            if key not in table:
                raise refuse("model", table, key, PositiveCount)
    if model.interaction == "dcn" and "init" not in table:
        return replace(model, init="torchrec")
    return model
