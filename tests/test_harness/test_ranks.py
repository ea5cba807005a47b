"""Which rank is named when several of them fail."""

import signal

import pytest
from torch.distributed.elastic.multiprocessing.errors import ProcessFailure

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
