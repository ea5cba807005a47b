"""The precision in which pooled embeddings and their gradients travel (torchrec's quantized communication)."""

from typing import Any

import torch
from torchrec.distributed.fbgemm_qcomm_codec import CommType, QCommsConfig, get_qcomm_codecs_registry

from reference_models.config import parse_comm
from reference_models.errors import ConfigError

_CPU_PRECISIONS = ("fp32", "fp16", "int8")
_SENDS_PARTIAL_SUMS = ("auto", "row_wise", "table_row_wise", "grid_shard")


def make_codecs(comm: str, sharding: str, device: torch.device) -> dict[str, Any] | None:
    """TorchRec's codecs for `comm`, None for fp32 both ways, which needs none.

    Raises ConfigError where TorchRec would quietly take another precision, or fail in the first step.
    """
    forward, backward = precisions = parse_comm(comm)
    if forward == backward == "fp32":
        return None
    for precision in precisions:
        if device.type == "cpu" and precision not in _CPU_PRECISIONS:
            raise ConfigError(
                f"runtime.comm {comm!r}: between CPUs TorchRec has no {precision} (it would take fp16 for bf16, and "
                f"fail with fp8). Use one of {', '.join(_CPU_PRECISIONS)}."
            )
        if precision in ("int8", "fp8") and sharding in _SENDS_PARTIAL_SUMS:
            raise ConfigError(
                f"runtime.comm {comm!r}: with sharding {sharding!r} ranks add up partial sums, which cannot "
                f"travel in {precision}. Use fp16, or shard table_wise or column_wise."
            )
    config = QCommsConfig(forward_precision=CommType(forward), backward_precision=CommType(backward))
    codecs: dict[str, Any] = get_qcomm_codecs_registry(config, device=device)
    return codecs
