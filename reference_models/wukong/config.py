"""Torch-free configuration of Wukong: layers of its stack of factorization machines, and the widths of its MLPs."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from reference_models.config.records import Counts, PositiveCount, read_section, refuse
from reference_models.process.errors import ConfigError

WIDTH = "width"
"""Shorthand key of [model] that sets num_fmb, num_lcb and rank at once, to scale a Wukong."""
_OF_WIDTH = ("num_fmb", "num_lcb", "rank")


@dataclass(frozen=True, kw_only=True, slots=True)
class WukongConfig:
    """Sizes of a Wukong. In the symbols of its paper, n_F is `num_fmb`, n_L `num_lcb`, k `rank`; all layers are
    alike."""

    embedding_dim: PositiveCount
    """Width of embedding rows, and of every vector of the stack."""
    bottom_mlp: Counts
    """Widths of the bottom MLP's layers, which process the dense features; the last is embedding_dim."""
    num_layers: PositiveCount
    """Number of layers of the stack; layer i has interactions of up to 2^i features."""
    num_fmb: PositiveCount
    """Number of vectors that a layer's factorization machine returns."""
    num_lcb: PositiveCount
    """Number of vectors that a layer's linear compression returns."""
    rank: PositiveCount
    """Number of linear combinations that a layer makes of its inputs; the dot products of the inputs with these
    combinations go to the MLP."""
    fmb_mlp: Counts
    """Hidden widths of a factorization machine's MLP."""
    top_mlp: Counts
    """Widths of the top MLP's layers, which follow the stack; the last is 1, the logit."""
    init: Literal["dlrm", "torchrec"] = "torchrec"
    """Project whose distribution of initial weights the MLPs use: `dlrm` (facebookresearch/dlrm) or `torchrec`."""


def parse_model(table: Mapping[str, Any]) -> WukongConfig:
    """Read Wukong's [model] section of a definition. Raises ConfigError naming the invalid field."""
    model = read_section("model", table, WukongConfig)
    if model.bottom_mlp[-1] != model.embedding_dim:
        raise refuse("model", table, "bottom_mlp", f"a last width of model.embedding_dim ({model.embedding_dim})")
    if model.top_mlp[-1] != 1:
        raise refuse("model", table, "top_mlp", "a last width of 1, the logit")
    return model


def follow(model: Mapping[str, Any], changed: Collection[str]) -> Mapping[str, Any]:
    """Return the section [model] with the shorthand key `width` replaced by the keys that it sets.

    If `changed` names the embedding dimension but not the bottom MLP, the bottom MLP's last width is set to the new
    dimension.
    """
    made = dict(model)
    width = made.pop(WIDTH, None)
    if width is not None:
        if clash := [key for key in _OF_WIDTH if key in changed]:
            raise ConfigError(
                f"model.{WIDTH} sets {', '.join(_OF_WIDTH)}, so model.{clash[0]} cannot be set beside it."
            )
        made |= dict.fromkeys(_OF_WIDTH, width)
    if "embedding_dim" in changed and "bottom_mlp" not in changed and isinstance(made.get("bottom_mlp"), list):
        made["bottom_mlp"] = [*made["bottom_mlp"][:-1], made["embedding_dim"]]
    return made
