"""Starting ranks for tests: through the command, or as a world of their own."""

import importlib.util
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

needs_torchrec = pytest.mark.skipif(
    not all(importlib.util.find_spec(name) for name in ("torchrec", "fbgemm_gpu")),
    reason="needs torchrec: pip install --no-deps -r requirements/torchrec-cpu.txt",
)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def start_command(*arguments: object, cwd: Path, **environ: str) -> "subprocess.Popen[str]":
    """The command line in a process group of its own, stderr with stdout."""
    return subprocess.Popen(
        [sys.executable, "-m", "harness", *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def start_world(num_ranks: int, arguments: list[list[object]], cwd: Path) -> list["subprocess.Popen[str]"]:
    """One command per rank, in a world as torchrun would make it."""
    port = str(free_port())
    return [
        start_command(
            *arguments[rank],
            cwd=cwd,
            RANK=str(rank),
            WORLD_SIZE=str(num_ranks),
            LOCAL_RANK=str(rank),
            MASTER_ADDR="127.0.0.1",
            MASTER_PORT=port,
        )
        for rank in range(num_ranks)
    ]


def find_rank(parent: int, rank: int, *, within_s: float = 60.0) -> int:
    """Process id of a rank below the process `parent`, waiting until it is there."""
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        for pid in descendants(parent):
            try:
                command = Path(f"/proc/{pid}/cmdline").read_bytes()
                environ = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"harness.launch.rank\0" in command and b"RANK=%d" % rank in environ:
                return pid
        time.sleep(0.05)
    raise AssertionError(f"rank {rank} did not start")


def descendants(pid: int) -> list[int]:
    found: list[int] = []
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return found
    for child in map(int, children):
        found += [child, *descendants(child)]
    return found


def kill_group(process: "subprocess.Popen[str]") -> None:
    """Whatever is left of a command and its ranks."""
    for pid in [*descendants(process.pid), process.pid]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    process.communicate()
