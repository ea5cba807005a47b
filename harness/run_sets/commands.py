"""Command lines that complete what is in a folder."""

import shlex
from pathlib import Path

from harness.run_sets.outside_code import find_outside_code
from reference_models.registry import without_digest


def resume_command(folder: Path, python: str | None = None) -> str:
    """Return the command that completes the experiment in `folder`, with the interpreter that it was begun with, and
    the code that is not ours."""
    code = dict.fromkeys((what, without_digest(name)) for what, name in find_outside_code(folder))
    given = [word for what, name in code for word in (f"--{what}", name)]
    return shlex.join(["dlrmbench", "resume", str(folder), *([] if python is None else ["--python", python]), *given])
