"""The optimized implementation of Wukong: DLRM's steps, on a CPU by hand and on CUDA as a graph, with the stack's."""

import torch

from reference_models.dlrm.cuda_graph import CUDAGraphWorkload
from reference_models.dlrm.fused_step import FusedDLRM
from reference_models.dlrm.optimized import OptimizedWorkload
from reference_models.fused.interaction import FusedInteraction
from reference_models.wukong.config import WukongConfig
from reference_models.wukong.fused_stack import fuse_stack
from reference_models.wukong.model import build_stack
from reference_models.wukong.stack import WukongStack


class FusedWukong(FusedDLRM):
    """Wukong with its weights where hand-written passes are fast; to everybody else the plain module."""

    def _build_interaction(self, config: WukongConfig, num_features: int) -> WukongStack:
        return build_stack(config, num_features)

    def _fuse_interaction(self, like: torch.Tensor, optimizer: torch.optim.Optimizer) -> FusedInteraction:
        return fuse_stack(self.interaction, self.merged_weight, optimizer, self.matmuls)


class OptimizedWukongWorkload(OptimizedWorkload):
    """Trains one `FusedWukong` on a CPU."""

    model_class = FusedWukong


class CUDAGraphWukongWorkload(CUDAGraphWorkload):
    """Trains one `FusedWukong` by replaying a graph of its step."""

    model_class = FusedWukong
