"""Compose the command lines that complete an experiment's folder."""

import shlex
from collections.abc import Mapping
from pathlib import Path

from harness.foundation.errors import ExitCode, HarnessError
from harness.run_sets.outside_code import find_outside_code
from reference_models.registry import without_digest
from rules.logs.text import show
from rules.records.run_set import HookName


def split_command(command: str) -> list[str]:
    """Return the recorded command line of an experiment as a list of arguments. Raises HarnessError (exit 8) where a
    shell could not split it."""
    try:
        return shlex.split(command)
    except ValueError as error:
        words = f"experiment.json: command: found {show(command)}, expected a command line: {error}."
        raise HarnessError(words, ExitCode.INPUT) from None


def resume_command(folder: Path, python: str | None = None, hooks: Mapping[HookName, str] | None = None) -> str:
    """Return the command line that completes the experiment in `folder`. It names all code that the experiment needs
    besides dlrmbench, since no file may start it: another interpreter, the user's commands (hooks), and the user's
    own models and implementations."""
    code = dict.fromkeys((what, without_digest(name)) for what, name in find_outside_code(folder))
    given = [] if python is None else ["--python", python]
    given += [word for what, name in (*code, *(hooks or {}).items()) for word in (f"--{what}", name)]
    return shlex.join(["dlrmbench", "resume", str(folder), *given])
