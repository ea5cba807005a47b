"""A world of several ranks over torch.distributed: gloo between CPUs, NCCL between GPUs, gloo for control.

The ranks find each other by torchrun's variables: RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT.
"""

import os
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, TypeVar

import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from reference_models.errors import ConfigError

T = TypeVar("T")
_NEEDED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


class ProcessGroup:
    """The ranks of the default process group.

    Small Python objects travel over a gloo group of their own, so that control never waits for a GPU's stream, and
    a barrier names the ranks that did not come.
    """

    def __init__(self, control: "dist.ProcessGroup", store: Store, timeout: timedelta) -> None:
        self._control, self._store, self._timeout = control, store, timeout
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
        """Raises RuntimeError that names the missing ranks when one does not come within the timeout."""
        dist.monitored_barrier(self._control, timeout=self._timeout, wait_all_ranks=True)

    def note(self, key: str, value: str) -> None:
        """Leave a note where every rank can read it, at once and without waiting for anyone; from any thread."""
        self._store.set(key, value)

    def read_note(self, key: str) -> bytes:
        """The last note of that name, empty when there is none yet."""
        return self._store.get(key) if self._store.check([key]) else b""

    def leave(self) -> None:
        """Close the connections. Only after the last collective call of every rank."""
        dist.destroy_process_group()


def join_world(
    device_type: str, timeout_s: float, environ: Mapping[str, str] | None = None, num_ranks: int | None = None
) -> ProcessGroup:
    """Meet the other ranks. Raises ConfigError when the variables are missing or tell of another number of ranks.

    `timeout_s` is how long any one collective call may wait for another rank.
    """
    environ = os.environ if environ is None else environ
    missing = [name for name in _NEEDED if name not in environ]
    if missing:
        raise ConfigError(
            f"cannot join the other ranks: {', '.join(missing)} not set. Start the ranks with torchrun, or set "
            f"{', '.join(_NEEDED)} (LOCAL_RANK too where a machine has several GPUs)."
        )
    try:
        rank, size, _ = (int(environ[name]) for name in ("RANK", "WORLD_SIZE", "MASTER_PORT"))
    except ValueError as error:
        raise ConfigError(f"RANK, WORLD_SIZE and MASTER_PORT must be whole numbers: {error}") from error
    if not 0 <= rank < size:
        raise ConfigError(f"RANK is {rank} in a world of WORLD_SIZE {size}.")
    if num_ranks is not None and num_ranks != size:
        raise ConfigError(f"{num_ranks} ranks were asked for, but WORLD_SIZE is {size}.")
    timeout = timedelta(seconds=timeout_s)
    # Of its own, so that "env://" finds torchrun's store and our notes do not meet the group's keys.
    store, rank, size = next(rendezvous("env://", rank, size, timeout=timeout))
    dist.init_process_group(
        backend="cpu:gloo,cuda:nccl" if device_type == "cuda" else "gloo",
        store=PrefixStore("group", store),
        rank=rank,
        world_size=size,
        timeout=timeout,
    )
    control = dist.new_group(backend="gloo", timeout=timeout)
    return ProcessGroup(control, PrefixStore("notes", store), timeout)
