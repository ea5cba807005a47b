"""Commands of the user's around each repetition: --prepare, --cleanup, and --power-command while it is timed.

They come from the command line alone. A set only says which it was made with, and no file starts one.
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
    """A command of --prepare or --cleanup failed: what was to be measured may not have been as it was asked."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Hooks:
    """The commands around every repetition, as the shell takes them; None where there is none."""

    prepare: str | None = None
    cleanup: str | None = None
    power_command: str | None = None

    @classmethod
    def asked_by(cls, request: Any) -> "Hooks":
        """Return those of a request, in which an empty command is none."""
        return cls(
            prepare=request.prepare or None,
            cleanup=request.cleanup or None,
            power_command=request.power_command or None,
        )

    @property
    def asked(self) -> dict[HookName, str]:
        """Return the commands by their names, without those that were not asked."""
        return {name: command for name in _NAMES if (command := getattr(self, name.replace("-", "_"))) is not None}

    def run(
        self, name: HookName, folder: Path, on_done: Callable[[Mapping[str, Any]], None] = lambda values: None
    ) -> None:
        """Run a command, if there is one, and keep what became of it in hooks.json in a repetition's folder.

        `on_done` is called with its record's members. Raises HookError (exit 2) where it fails.
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
            said = f" It said:\n{record.output.rstrip()}" if record.output.strip() else " It said nothing."
            raise HookError(f"--{name} {shlex.quote(command)} ended with exit code {record.exit_code}.{said}")

    def refuse_other(self, folder: Path, recorded: Mapping[HookName, str], resume: str) -> None:
        """Raise HarnessError (exit 2) where a set was made with other commands than are given: all its repetitions
        have the same around them, and none starts for being named in a file.
        """
        if self.asked == dict(recorded):
            return
        if not recorded:
            raise HarnessError(f"{folder}: was begun without --{' and --'.join(self.asked)}. Leave that out.")
        raise HarnessError(f"{folder}: was made with commands around its runs. To run them, give the same: {resume}")


NO_HOOKS = Hooks()


def _run(command: str) -> HookRecord:
    """Run a command by the shell. What it starts in the background may go on, and is not waited for."""
    with TemporaryFile() as output:
        started_s = time.monotonic()
        code = subprocess.run(
            command, shell=True, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, check=False
        ).returncode
        took_s = time.monotonic() - started_s
        output.seek(max(0, output.seek(0, 2) - MAX_OUTPUT))
        text = output.read(MAX_OUTPUT).decode(errors="replace")
    return HookRecord(command=command, exit_code=code, took_s=took_s, output=text)
