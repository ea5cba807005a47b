"""Starting ranks for tests: through the command, or as a world of their own."""

import importlib.util
import math
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from waiting import wait_until

needs_torchrec = pytest.mark.skipif(
    not all(importlib.util.find_spec(name) for name in ("torchrec", "fbgemm_gpu")),
    reason="needs torchrec: pip install --no-deps -r reference_models/dlrm/requirements/torchrec-cpu.txt",
)


Process = subprocess.Popen[str]


def reserve_port() -> socket.socket:
    """A socket whose port nobody else is given while it is open, and at which rank 0 can listen all the same."""
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("", 0))
    return holder


COMMAND_LINE = ("-m", "harness")


def start_command(
    *arguments: object,
    cwd: Path,
    hold: socket.socket | None = None,
    program: tuple[str, ...] = COMMAND_LINE,
    **environ: str,
) -> Process:
    """The command line in a process group of its own, stderr with stdout; it keeps `hold` open while it lives."""
    return subprocess.Popen(
        [sys.executable, *program, *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        pass_fds=() if hold is None else (hold.fileno(),),
    )


@contextmanager
def started(*arguments: object, cwd: Path) -> Iterator[Process]:
    """One command; whatever is left of it and its ranks is killed at the end."""
    process = start_command(*arguments, cwd=cwd)
    try:
        yield process
    finally:
        kill_group(process)


@contextmanager
def started_world(
    arguments: list[list[object]], cwd: Path, program: tuple[str, ...] = COMMAND_LINE
) -> Iterator[list[Process]]:
    """One command per rank, in a world as torchrun would make it; what is left of them is killed at the end."""
    world: list[Process] = []
    try:
        with reserve_port() as holder:
            for rank, given in enumerate(arguments):
                world.append(
                    start_command(
                        *given,
                        cwd=cwd,
                        hold=holder,
                        program=program,
                        RANK=str(rank),
                        WORLD_SIZE=str(len(arguments)),
                        LOCAL_RANK=str(rank),
                        MASTER_ADDR="127.0.0.1",
                        MASTER_PORT=str(holder.getsockname()[1]),
                    )
                )
        yield world
    finally:
        for process in world:
            kill_group(process)


def find_rank(parent: Process, rank: int) -> int | None:
    """Process id of a rank below `parent`, waiting until it is there; None when `parent` has ended before."""
    found = wait_until(lambda: _rank_below(parent.pid, rank) or parent.poll() is not None, f"rank {rank}")
    return None if found is True else found


def _rank_below(parent: int, rank: int) -> int | None:
    for pid in descendants(parent):
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            environ = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"harness.launch.rank\0" in command and b"RANK=%d" % rank in environ:
            return pid
    return None


def send(pid: int | None, number: signal.Signals) -> None:
    """A signal to a process that may have ended by itself, or never have been there."""
    if pid is not None:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def processor_s(pid: int) -> float:
    """Processor time that a process has taken so far; inf once it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return math.inf
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def descendants(pid: int) -> list[int]:
    found: list[int] = []
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return found
    for child in map(int, children):
        found += [child, *descendants(child)]
    return found


def kill_group(process: Process) -> None:
    """Whatever is left of a command and its ranks."""
    if process.poll() is None:
        for pid in [*descendants(process.pid), process.pid]:
            send(pid, signal.SIGKILL)
    process.communicate()
