"""Before an interrupted experiment goes on: what must be given again, and what has changed since it was begun."""

from collections.abc import Collection
from pathlib import Path

from harness.experiment.request import RequestError
from harness.experiment.store import parts_of, read
from harness.foundation.errors import HarnessError
from harness.run_sets.commands import resume_command
from harness.run_sets.environment import check_again
from harness.run_sets.folder import describe_other_code, open_run_set
from harness.run_sets.outside_code import refuse_outside_code
from rules.records.experiment import group_file
from rules.records.run_set import PreflightCheck


def look_again(
    folder: Path, *, models: Collection[str], implementations: Collection[str], is_python_given: bool
) -> tuple[tuple[PreflightCheck, ...], str | None]:
    """Return what the environment check says now, and what is said of other code where that is no error.

    Raises HarnessError: exit 2 where code of others is not given again, or the folder is one side of a pair; 6 where
    the environment check warns and the experiment was begun with --strict-env.
    """
    refuse_outside_code(folder, {"model": models, "implementation": implementations})
    _refuse_side(folder)
    record = read(folder)
    if is_python_given and record.relation != "sides":
        raise RequestError(f"--python is for a pair of 'run --beside', and {folder} is none. Leave it out.")
    sets = [open_run_set(part) for part in parts_of(folder).values()]
    others = (describe_other_code(run_set.folder, each) for run_set, each in sets)
    other = next(filter(None, others), None) if record.on_other_code == "warn" else None
    return check_again(folder, sets[0][1]), other  # all were begun alike


def _refuse_side(folder: Path) -> None:
    """Raise HarnessError (exit 2) for one side of two: what it lacks is made in turns with the other."""
    whole, name = folder.absolute().parent, folder.absolute().name
    if group_file(whole) is None or group_file(folder) is not None:
        return
    record = read(whole)
    if record.relation == "sides" and name in {each.folder for each in record.configurations}:
        raise HarnessError(
            f"{folder}: is one side of a pair, whose runs take turns. Complete the pair: "
            f"{resume_command(whole, record.python)}"
        )
