"""Which rank is named when several of them fail, and how every process of a run ends."""

import re
import signal
import subprocess
import sys

import pytest
from places import ROOT
from torch.distributed.elastic.multiprocessing.errors import ProcessFailure
from waiting import HANG_S

from harness.foundation.errors import ExitCode
from harness.launch.torchrun import find_culprit

KILLED, ASKED_TO_END = -signal.SIGKILL, -signal.SIGTERM


def failures(*ends: tuple[int, int]) -> dict[int, ProcessFailure]:
    """By rank, from exit codes and the seconds at which the launcher saw them."""
    made = {}
    for rank, (exit_code, seen_s) in enumerate(ends):
        made[rank] = ProcessFailure(local_rank=rank, pid=1000 + rank, exitcode=exit_code, error_file="none")
        made[rank].timestamp = seen_s
    return made


@pytest.mark.parametrize(
    ("ends", "culprit"),
    [
        ([(ExitCode.INTERNAL_ERROR, 10), (KILLED, 10)], 1),  # rank 0 lost its connection
        ([(ExitCode.INTERNAL_ERROR, 10), (KILLED, 12)], 1),  # the same, seen later
        ([(ASKED_TO_END, 11), (ExitCode.RESOURCES, 10), (ExitCode.INTERNAL_ERROR, 10)], 1),
        ([(ExitCode.RESOURCES, 10), (KILLED, 40)], 0),  # rank 1 stood still, rank 0 noticed
        ([(KILLED, 40), (ASKED_TO_END, 40), (ExitCode.RESOURCES, 10)], 2),
        ([(ExitCode.INTERNAL_ERROR, 11), (ExitCode.INTERNAL_ERROR, 10)], 1),  # the first of equals
    ],
)
def test_the_rank_that_began_it_is_named(ends: list[tuple[int, int]], culprit: int) -> None:
    assert find_culprit(failures(*ends))[0] == culprit


def test_a_process_ends_with_its_output_and_without_waiting_for_its_threads() -> None:
    code = (
        "import sys, threading\nfrom harness.foundation.errors import end_process\n"
        "threading.Thread(target=sys.stdin.read).start()\nprint('all', end='')\nend_process(9)"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.wait(HANG_S) == 9
    assert process.stdin is not None and process.stdout is not None
    with process.stdin, process.stdout as stdout:
        assert stdout.read() == b"all"


def test_every_process_that_is_started_as_a_module_ends_that_way() -> None:
    """All but those that print texts about definitions, and the timekeeper, which start no thread of torch's."""
    sources = sorted((ROOT / "harness").rglob("*.py"))
    endings = {
        path: ending
        for path in sources
        if path.name != "__main__.py"
        and path.parent.name != "config"
        and path.stem != "timekeeper"
        and (ending := path.read_text().partition('\nif __name__ == "__main__":\n')[2])
    }
    assert {path.stem for path in endings} >= {"job", "rank", "torchrun"}
    assert all(re.fullmatch(r"    end_process\(.*\)\n", ending) for ending in endings.values()), endings
