"""Command lines that complete what is in a folder."""

import shlex
from pathlib import Path


def resume_command(folder: Path, python: str | None = None) -> str:
    """Return the command that completes the experiment in `folder`, with the interpreter that it was begun with."""
    return shlex.join(["dlrmbench", "resume", str(folder), *([] if python is None else ["--python", python])])
