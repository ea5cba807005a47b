"""The bandwidth between two ranks: measured, by sending to and fro."""

import time

import torch
import torch.distributed as dist

from reference_models.process.world import World

MESSAGE_BYTES = 1 << 20
_WANTED_S = 0.3
_FEWEST, _MOST = 2, 50


def measure_bandwidth(world: World, device: torch.device) -> tuple[float, int] | None:
    """Bytes per second one way between rank 0 and the last rank, and the bytes that each of them sent to find out.

    On every rank; None in a world of one.

    The last rank is the one most likely to be on another machine. Messages of 1 MiB go there and back over the
    ranks' own group, from and to the memory of `device`, for about 0.3 s.
    """
    if world.size == 1:
        return None
    message = torch.zeros(MESSAGE_BYTES, dtype=torch.uint8, device=device)
    _there_and_back(world, message, 1)  # opens the connection
    took_s = _there_and_back(world, message, 1)
    number = world.broadcast(max(_FEWEST, min(_MOST, int(_WANTED_S / max(took_s, 1e-9)))))
    took_s = _there_and_back(world, message, number)
    return world.broadcast((2 * number * MESSAGE_BYTES / took_s, (number + 2) * MESSAGE_BYTES))


def _there_and_back(world: World, message: torch.Tensor, number: int) -> float:
    """Measure the seconds that `number` rounds took, as rank 0 saw them."""
    last = world.size - 1
    world.barrier()
    started_s = time.perf_counter()
    for _ in range(number):
        if world.rank == 0:
            dist.send(message, last)
            dist.recv(message, last)
        elif world.rank == last:
            dist.recv(message, 0)
            dist.send(message, 0)
    if message.is_cuda:
        torch.cuda.synchronize(message.device)
    return time.perf_counter() - started_s
