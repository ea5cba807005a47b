"""Command lines that complete what is in a folder."""

import shlex
from collections.abc import Mapping
from pathlib import Path

from rules.records.run_set import HookName


def resume_command(folder: Path, python: str | None = None, hooks: Mapping[HookName, str] | None = None) -> str:
    """Return the command that completes the experiment in `folder`, with the interpreter and the commands around its
    runs that it was begun with."""
    asked = [word for name, command in (hooks or {}).items() for word in (f"--{name}", command)]
    return shlex.join(["dlrmbench", "resume", str(folder), *([] if python is None else ["--python", python]), *asked])
