"""Compression of dense gradients between ranks, by communication hooks of DistributedDataParallel, with a count of
the bytes sent.

`topk` sends a share of each bucket's values, those of largest magnitude, and keeps the rest for the next step (error
feedback; Stich et al. 2018, "Sparsified SGD with Memory"). The other schemes are PyTorch's own hooks.
"""

import math

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import GradBucket
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

from reference_models.config.sections import parse_grad_comm
from reference_models.distributed.traffic import active_counter

POWERSGD_START_STEP = 10
"""Number of first steps whose gradients are averaged uncompressed before PowerSGD starts, so that the large changes
of the first gradients are over."""


class TopK:
    """State of the top-k hook: the residual of each parameter, that is the part of its gradients that was not sent to
    other ranks yet."""

    def __init__(self, density: float, group: dist.ProcessGroup | None = None) -> None:
        self.density, self.group = density, group
        self._residuals: dict[int, torch.Tensor] = {}

    def select(self, bucket: GradBucket) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return the part of a bucket's gradients to send, as positions int64 [k] and values [k], and the residual
        [N] to keep for the next step.

        The values and the new residual add up exactly to the gradient plus the last residual: each number is either
        in the values or in the residual.
        """
        total = bucket.buffer() + self._residual(bucket)
        count = max(1, math.ceil(self.density * total.numel()))
        positions = total.abs().topk(count, sorted=False).indices.sort().values
        values = total[positions]
        remainder = total.index_fill(0, positions, 0.0)
        self._keep(bucket, remainder)
        return positions, values, remainder

    def _residual(self, bucket: GradBucket) -> torch.Tensor:
        # By parameter and not by bucket: after its first step DistributedDataParallel makes new buckets.
        parts = [
            self._residuals.get(id(parameter), torch.zeros_like(gradient).flatten())
            for parameter, gradient in zip(bucket.parameters(), bucket.gradients(), strict=True)
        ]
        return torch.cat(parts)

    def _keep(self, bucket: GradBucket, remainder: torch.Tensor) -> None:
        sizes = [gradient.numel() for gradient in bucket.gradients()]
        for parameter, part in zip(bucket.parameters(), torch.split(remainder, sizes), strict=True):
            self._residuals[id(parameter)] = part


def topk_hook(state: TopK, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Return a bucket's gradient averaged over ranks; each rank sends only the largest values of its own gradient
    (top-k). Ranks' values are added in rank order, so that all ranks get the same bits."""
    if state.density == 1.0:
        return default_hooks.allreduce_hook(state.group, bucket)  # type: ignore[arg-type]
    positions, values, remainder = state.select(bucket)
    num_ranks, count = dist.get_world_size(state.group), len(values)
    packed = torch.cat([positions.to(torch.int32), values.to(torch.float32).view(torch.int32)])
    received = [torch.empty_like(packed) for _ in range(num_ranks)]
    dist.all_gather(received, packed, group=state.group)
    mean = torch.zeros_like(remainder)
    for message in received:
        where, what = message[:count].long(), message[count:].view(torch.float32)
        mean.index_add_(0, where, what.to(mean.dtype))
    future: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    future.set_result(mean.div_(num_ranks))
    return future


def powersgd_hook(state: powerSGD_hook.PowerSGDState, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Average a gradient bucket by PyTorch's PowerSGD hook; while a counter of collective calls is active, wait for
    the hook's exchange and count the bytes of its matrices."""
    counter = active_counter()
    if counter is None:
        return powerSGD_hook.powerSGD_hook(state, bucket)

    def exchange() -> tuple[torch.Tensor, int]:
        given = bucket.buffer()
        is_compressed, before = state.iter >= state.start_powerSGD_iter, state.total_numel_after_compression
        reduced = powerSGD_hook.powerSGD_hook(state, bucket).wait()
        numel = state.total_numel_after_compression - before if is_compressed else given.numel()
        return reduced, numel * given.element_size()

    future: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    future.set_result(counter.watch_dense("powersgd", exchange))
    return future


def register_gradient_compression(model: DistributedDataParallel, grad_comm: str) -> None:
    """Make a model's ranks exchange gradients by the compression scheme `grad_comm`. "dense" is
    DistributedDataParallel's default exchange, without compression.

    The compression hooks have a process group of their own. PowerSGD starts its later rounds in callbacks, which run
    at different moments on different ranks. In a shared group they would mix with the embedding exchange of other
    ranks.
    """
    scheme, parameter = parse_grad_comm(grad_comm)
    if scheme == "dense":
        return
    group = dist.new_group()
    if scheme == "fp16":
        model.register_comm_hook(group, default_hooks.fp16_compress_hook)
    elif scheme == "powersgd":
        state = powerSGD_hook.PowerSGDState(
            process_group=group, matrix_approximation_rank=int(parameter), start_powerSGD_iter=POWERSGD_START_STEP
        )
        model.register_comm_hook(state, powersgd_hook)
    elif scheme == "topk":
        model.register_comm_hook(TopK(parameter, group), topk_hook)
