"""What a process learns from its environment about the ranks beside it: only what is certain stops a plain run."""

import pytest

from harness.foundation.errors import ExitCode, HarnessError
from harness.system.launcher_env import adopt_slurm, launcher_of_many, world_size

JOB = {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "2", "SLURM_PROCID": "0", "SLURM_LOCALID": "0"}


@pytest.mark.parametrize(
    ("environ", "launcher"),
    [
        ({}, None),
        ({"RANK": "0", "TORCHELASTIC_RUN_ID": "x"}, "torchrun"),
        ({"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "a"}, "a launcher"),
        ({"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "a"}, None),
        ({"WORLD_SIZE": "2"}, None),
        (JOB, None),  # the shell of a batch job
        ({**JOB, "SLURM_STEP_ID": "4294967290", "SLURM_STEP_NUM_TASKS": "1"}, None),  # an interactive one
        ({**JOB, "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2"}, "srun"),
    ],
)
def test_a_launcher_of_several_ranks_is_not_taken_for_a_shell(environ: dict[str, str], launcher: str | None) -> None:
    found = launcher_of_many(environ)
    assert found is None if launcher is None else found is not None and found.startswith(launcher)


def test_the_size_of_the_world_is_torchruns_before_slurms() -> None:
    assert world_size({}) is None
    assert world_size(JOB) == 2
    assert world_size({**JOB, "WORLD_SIZE": "3"}) == 3


@pytest.mark.parametrize("value", ["x", "0", "-1", "", "2.0"])
def test_a_size_that_is_no_number_is_refused_with_its_variable(value: str) -> None:
    with pytest.raises(HarnessError, match="WORLD_SIZE is ") as refused:
        world_size({"WORLD_SIZE": value})
    assert refused.value.exit_code == ExitCode.USAGE


def test_slurms_variables_do_not_replace_torchruns() -> None:
    environ = {**JOB, "RANK": "5"}
    adopt_slurm(environ)
    assert (environ["RANK"], environ["WORLD_SIZE"], environ["LOCAL_RANK"]) == ("5", "2", "0")
    assert "LOCAL_WORLD_SIZE" not in environ, "a job's shell is in no step"


@pytest.mark.parametrize(
    ("tasks", "node", "expected"),
    [
        ("4", "0", "4"),
        ("4(x2)", "1", "4"),
        ("2(x3),1", "3", "1"),
        ("2(x3),1", "2", "2"),
        ("2(x3),1", "4", None),
        ("4(x2)", "x", None),
        ("0", "0", None),
        ("4(x2", "0", None),
        ("", "0", None),
    ],
)
def test_each_task_of_a_step_knows_how_many_share_its_node(tasks: str, node: str, expected: str | None) -> None:
    environ = {**JOB, "SLURM_STEP_TASKS_PER_NODE": tasks, "SLURM_NODEID": node}
    adopt_slurm(environ)
    assert environ.get("LOCAL_WORLD_SIZE") == expected
    environ = {**environ, "LOCAL_WORLD_SIZE": "7"}
    adopt_slurm(environ)
    assert environ["LOCAL_WORLD_SIZE"] == "7", "torchrun's own comes first"
