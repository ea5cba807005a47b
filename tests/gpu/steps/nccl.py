"""Collective calls of one rank: their times against events of the device; and torchrec, where it is installed."""

import os
import socket
import time
from importlib.util import find_spec

import torch
import torch.distributed as dist
from findings import Findings
from setting import Setting, last_line

from reference_models.distributed.process_group import join
from reference_models.distributed.rendezvous import rendezvous
from reference_models.distributed.traffic import CollectiveCounter
from reference_models.training.devices import find_device

TIMEOUT_S = 60.0


def run(setting: Setting, findings: Findings) -> None:
    measure_collectives(setting, findings)
    train_torchrec(setting, findings)


def measure_collectives(setting: Setting, findings: Findings) -> None:
    """Time a gather that the device takes milliseconds for, behind products that it takes longer for."""
    with socket.socket() as held:
        held.bind(("", 0))
        port = held.getsockname()[1]
    os.environ |= {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    device = find_device(setting.device)
    world = join(rendezvous(num_ranks=1), device, TIMEOUT_S)
    size, num_numbers = (8192, 1 << 30) if setting.is_full else (64, 1 << 12)
    matrix, sent = torch.rand(size, size, device=device), torch.ones(num_numbers, device=device)
    received = torch.empty_like(sent)

    def work() -> None:
        for _ in range(10):
            matrix @ matrix

    def gather() -> None:
        dist.all_gather_into_tensor(received, sent)

    gather()
    work()
    worked_s, gathered_s = elapsed_s(work, device), elapsed_s(gather, device)
    counter = CollectiveCounter(0, 1, device)
    work()
    with counter:
        gather()
    counted_s = sum(counter.duration_s.values())
    world.leave()
    findings.note(products_ms=worked_s * 1e3, gather_ms=gathered_s * 1e3, counted_ms=counted_s * 1e3)
    holds = 0.8 * gathered_s <= counted_s <= 2 * gathered_s + 0.2 * worked_s
    figure = f"{counted_s * 1e3:.2f} ms counted, {gathered_s * 1e3:.2f} ms by events"
    findings.judge("collectives", holds, figure, f"a gather behind {worked_s * 1e3:.0f} ms of products, one rank")


def elapsed_s(call: object, device: torch.device) -> float:
    """Time one call by events of the device; by the clock on a CPU."""
    assert callable(call)
    if device.type == "cpu":
        started_s = time.perf_counter()
        call()
        return time.perf_counter() - started_s
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize(device)
    start.record()
    call()
    stop.record()
    torch.cuda.synchronize(device)
    return float(start.elapsed_time(stop)) / 1e3


def train_torchrec(setting: Setting, findings: Findings) -> None:
    if not (find_spec("torchrec") and find_spec("fbgemm_gpu")):
        findings.leave_out("torchrec", "torchrec is not installed here; FBGEMM's wheel for GPUs has 0.5 GB")
        return
    chosen = ("--device", setting.device, "--implementation", "torchrec", "-n", "1", "-o", "torchrec", "-q")
    started_s = time.monotonic()
    done = setting.dlrmbench("run", "dlrm_tiny", *chosen)
    took = f"{time.monotonic() - started_s:.0f} s in all"
    figure = took if done.returncode == 0 else f"exit code {done.returncode}: {last_line(done.stderr)}"
    findings.judge("torchrec", done.returncode == 0, figure, "dlrmbench run dlrm_tiny --implementation torchrec -n 1")
