"""The precision in which pooled embeddings and their gradients travel (torchrec's quantized communication)."""

from typing import Any

from torchrec.distributed.fbgemm_qcomm_codec import CommType, QCommsConfig, get_qcomm_codecs_registry

from reference_models.config import parse_comm


def make_codecs(comm: str, device_type: str) -> dict[str, Any] | None:
    """TorchRec's codecs for `comm`, None for fp32 both ways, which needs none."""
    import torch

    forward, backward = parse_comm(comm)
    if forward == backward == "fp32":
        return None
    config = QCommsConfig(forward_precision=CommType(forward), backward_precision=CommType(backward))
    device = torch.device(device_type, torch.cuda.current_device()) if device_type == "cuda" else torch.device("cpu")
    codecs: dict[str, Any] = get_qcomm_codecs_registry(config, device=device)
    return codecs
