"""The precision in which pooled embeddings and their gradients travel (torchrec's quantized communication)."""

from typing import Any

import torch
from torchrec.distributed.fbgemm_qcomm_codec import CommType, QCommsConfig, get_qcomm_codecs_registry

from reference_models.config.sections import parse_comm


def make_codecs(comm: str, device: torch.device) -> dict[str, Any] | None:
    """Make TorchRec's codecs for `comm`, None for fp32 both ways, which needs none."""
    forward, backward = parse_comm(comm)
    if forward == backward == "fp32":
        return None
    config = QCommsConfig(forward_precision=CommType(forward), backward_precision=CommType(backward))
    codecs: dict[str, Any] = get_qcomm_codecs_registry(config, device=device)
    return codecs
