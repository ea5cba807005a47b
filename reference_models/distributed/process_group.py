"""Communication among ranks by torch.distributed. Tensors are sent by gloo between CPUs, and by NCCL between GPUs.
Python objects are always sent by gloo."""

from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore

from reference_models.distributed.rendezvous import Rendezvous
from reference_models.training.devices import use_device

T = TypeVar("T")


class ProcessGroup:
    """Communication among the ranks of torch's default process group.

    Small Python objects are sent over a separate gloo group, so that they never wait for a GPU's stream, and a
    barrier names the missing ranks.
    """

    def __init__(self, control: "dist.ProcessGroup", timeout: timedelta) -> None:
        self._control, self._timeout = control, timeout
        self.rank = dist.get_rank()
        self.size = dist.get_world_size()

    def gather(self, value: T) -> list[T] | None:
        values: list[Any] | None = [None] * self.size if self.rank == 0 else None
        dist.gather_object(value, values, dst=0, group=self._control)
        return values

    def broadcast(self, value: T) -> T:
        box: list[Any] = [value]
        dist.broadcast_object_list(box, src=0, group=self._control)
        return box[0]  # type: ignore[no-any-return]

    def barrier(self) -> None:
        """Wait for all ranks. Raises RuntimeError that names the missing ranks if some do not come before the
        timeout."""
        dist.monitored_barrier(self._control, timeout=self._timeout, wait_all_ranks=True)

    def leave(self) -> None:
        """Close the connections to other ranks; call it only after the last collective call of every rank."""
        dist.destroy_process_group()


def join(meeting: Rendezvous, device: torch.device, timeout_s: float) -> ProcessGroup:
    """Connect the ranks after their rendezvous. `device` is this rank's own device, which becomes current before NCCL
    starts.

    `timeout_s` limits, in seconds, how long any collective call waits for another rank.

    Raises RuntimeError, here and in every collective call, if a rank is lost.
    """
    timeout = timedelta(seconds=timeout_s)
    meeting.store.set_timeout(timeout)
    use_device(device)
    dist.init_process_group(
        backend="cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo",
        store=PrefixStore("group", meeting.store),
        rank=meeting.rank,
        world_size=meeting.size,
        timeout=timeout,
        device_id=device if device.type == "cuda" else None,
    )
    return ProcessGroup(dist.new_group(backend="gloo", timeout=timeout), timeout)
