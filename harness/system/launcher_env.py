"""Read the environment variables with which torchrun or Slurm's srun tell a process its rank and the number of
ranks."""

import re
from collections.abc import Mapping, MutableMapping

from harness.foundation.errors import HarnessError

_SLURM = {"RANK": "SLURM_PROCID", "WORLD_SIZE": "SLURM_NTASKS", "LOCAL_RANK": "SLURM_LOCALID"}


def world_size(environ: Mapping[str, str]) -> int | None:
    """Return the number of ranks that torchrun or srun started; None where neither did.

    Raises HarnessError (exit 2) when a variable is not a number of ranks.
    """
    for name in ("WORLD_SIZE", _SLURM["WORLD_SIZE"]):
        if name in environ:
            if not environ[name].isdecimal() or int(environ[name]) == 0:
                raise HarnessError(f"{name} is {environ[name]!r} in the environment: expected the number of ranks.")
            return int(environ[name])
    return None


def adopt_slurm(environ: MutableMapping[str, str]) -> None:
    """Set the variables in `environ` by which torchrun tells a process its rank and the number of ranks. Their values
    come from Slurm's variables; variables that are set already are kept."""
    for name, slurm in _SLURM.items():
        if name not in environ and slurm in environ:
            environ[name] = environ[slurm]
    tasks_here = count_tasks_here(environ)
    if tasks_here is not None:
        environ.setdefault("LOCAL_WORLD_SIZE", str(tasks_here))


def count_tasks_here(environ: Mapping[str, str]) -> int | None:
    """Return the number of tasks that this Slurm step has on this node; None if it is unknown. It is read from
    SLURM_STEP_TASKS_PER_NODE, a list such as "2(x3),1".

    None also if srun did not start this process as a task: in the shell of a job, the same variable describes the
    whole job.
    """
    if "SLURM_LOCALID" not in environ:
        return None
    counts: list[int] = []
    for part in environ.get("SLURM_STEP_TASKS_PER_NODE", "").split(","):
        match = re.fullmatch(r"([1-9]\d{0,5})(?:\(x([1-9]\d{0,4})\))?", part)
        if match is None:
            return None
        counts += [int(match[1])] * int(match[2] or 1)
    node = environ.get("SLURM_NODEID", "0")
    return counts[int(node)] if node.isdecimal() and int(node) < len(counts) else None


def launcher_of_many(environ: Mapping[str, str]) -> str | None:
    """Return the name of the launcher that started this process as one of several ranks; None if it is not certain
    that a launcher did.

    SLURM_NTASKS and SLURM_PROCID alone do not show this: they are also set in the shell of a Slurm job, which is not
    part of a step with several tasks.
    """
    if "TORCHELASTIC_RUN_ID" in environ and "RANK" in environ:
        return "torchrun"
    if all(environ.get(name) for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR")) and world_size(environ) != 1:
        return "a launcher (RANK, WORLD_SIZE and MASTER_ADDR are set)"
    if all(name in environ for name in ("SLURM_STEP_ID", "SLURM_PROCID")) and environ.get(
        "SLURM_STEP_NUM_TASKS", "1"
    ) not in ("", "0", "1"):
        return "srun"
    return None
