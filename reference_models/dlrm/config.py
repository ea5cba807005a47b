"""Torch-free configuration of DLRM: interaction and layer widths."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from reference_models.config.sections import Section


@dataclass(frozen=True, kw_only=True, slots=True)
class DLRMConfig:
    """Layer widths as the papers write them: `bottom_mlp` without its input, `top_mlp` ending in 1."""

    interaction: str
    embedding_dim: int
    bottom_mlp: tuple[int, ...]
    top_mlp: tuple[int, ...]
    dcn_num_layers: int = 0
    dcn_low_rank_dim: int = 0
    init: str = "dlrm"
    """Whose initial distribution the MLPs have: `dlrm` (facebookresearch/dlrm) or `torchrec`."""


def parse_model(table: Mapping[str, Any]) -> DLRMConfig:
    section = Section(
        "model",
        table,
        ("interaction", "embedding_dim", "bottom_mlp", "top_mlp", "dcn_num_layers", "dcn_low_rank_dim", "init"),
    )
    interaction = section.text("interaction", allowed=("dot", "dcn", "cat"))
    embedding_dim = section.whole("embedding_dim", low=1)
    bottom_mlp, top_mlp = section.wholes("bottom_mlp", low=1), section.wholes("top_mlp", low=1)
    if bottom_mlp[-1] != embedding_dim:
        raise section.fail("bottom_mlp", f"a last width of model.embedding_dim ({embedding_dim})")
    if top_mlp[-1] != 1:
        raise section.fail("top_mlp", "a last width of 1, the logit")
    is_dcn = interaction == "dcn"
    if not is_dcn and ("dcn_num_layers" in table or "dcn_low_rank_dim" in table):
        raise section.fail("interaction", "'dcn' where dcn_num_layers or dcn_low_rank_dim are given")
    return DLRMConfig(
        interaction=interaction,
        embedding_dim=embedding_dim,
        bottom_mlp=bottom_mlp,
        top_mlp=top_mlp,
        dcn_num_layers=section.whole("dcn_num_layers", low=1) if is_dcn else 0,
        dcn_low_rank_dim=section.whole("dcn_low_rank_dim", low=1) if is_dcn else 0,
        init=section.text("init", allowed=("dlrm", "torchrec"), default="torchrec" if is_dcn else "dlrm"),
    )
