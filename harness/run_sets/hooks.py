"""Run hooks, the user's commands around each repetition: --prepare, --cleanup, and --power-command while it is timed.

Hooks come only from the command line: a run set records its hooks, but no file starts a command.
"""

import shlex
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from msgspec.structs import replace

from harness.foundation.errors import HarnessError
from harness.foundation.files import write_record
from rules.records.codec import Damage, decode
from rules.records.kept.hooks import HOOKS_FILE, MAX_OUTPUT, HookRecord, HooksRecord
from rules.records.run_set import HookName

_NAMES: tuple[HookName, ...] = ("prepare", "cleanup", "power-command")


class HookError(HarnessError):
    """Error of a failed command of --prepare or --cleanup. It ends the experiment, since measurements might lack the
    conditions that the user wanted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Hooks:
    """User's shell commands before, after and during every repetition; None for each command that was not given."""

    prepare: str | None = None
    cleanup: str | None = None
    power_command: str | None = None

    @classmethod
    def asked_by(cls, request: Any) -> "Hooks":
        """Return the hooks (user's commands) of a request; an empty command means none."""
        return cls(
            prepare=request.prepare or None,
            cleanup=request.cleanup or None,
            power_command=request.power_command or None,
        )

    @property
    def asked(self) -> dict[HookName, str]:
        """User's shell commands by the name of their option (prepare, cleanup, power-command), without those that
        were not given."""
        return {name: command for name in _NAMES if (command := getattr(self, name.replace("-", "_"))) is not None}

    def run(
        self, name: HookName, folder: Path, on_done: Callable[[Mapping[str, Any]], None] = lambda values: None
    ) -> None:
        """Run the user's command of a hook, if there is one, and record its result in hooks.json in a repetition's
        folder.

        `on_done` is called with fields of that record. Raises HookError (exit 2) where the command fails.
        """
        command = getattr(self, name)
        if command is None:
            return
        record = _run(command)
        kept = decode(folder / HOOKS_FILE, HooksRecord)
        write_record(
            folder / HOOKS_FILE, replace(HooksRecord() if isinstance(kept, Damage) else kept, **{name: record})
        )
        on_done({"exit_code": record.exit_code, "took_s": record.took_s})
        if record.exit_code != 0:
            said = f" It printed:\n{record.output.rstrip()}" if record.output.strip() else " It printed nothing."
            raise HookError(f"--{name} {shlex.quote(command)} ended with exit code {record.exit_code}.{said}")

    def refuse_other(self, folder: Path, recorded: Mapping[HookName, str], resume: str) -> None:
        """Raise HarnessError (exit 2) if the hooks (a user's commands before and after each repetition) differ from
        those with which the run set began. Hooks are given on the command line, since no file may start a command."""
        if self.asked == dict(recorded):
            return
        if not recorded:
            raise HarnessError(f"{folder}: was begun without --{' and --'.join(self.asked)}. Leave that out.")
        raise HarnessError(f"{folder}: was made with commands around its runs. To run them, give the same: {resume}")


NO_HOOKS = Hooks()


def _run(command: str) -> HookRecord:
    """Run a user's command by the shell, without waiting for processes that it starts in the background; return its
    result."""
    with TemporaryFile() as output:
        started_s = time.monotonic()
        code = subprocess.run(
            command, shell=True, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, check=False
        ).returncode
        took_s = time.monotonic() - started_s
        output.seek(max(0, output.seek(0, 2) - MAX_OUTPUT))
        text = output.read(MAX_OUTPUT).decode(errors="replace")
    return HookRecord(command=command, exit_code=code, took_s=took_s, output=text)
