"""Write the git commit of the checkout into the built copy of dlrmbench, by build commands named in pyproject.toml.

Imported only by setuptools, by path and before anything is installed, so it imports nothing of dlrmbench.
"""

import json
import subprocess
from pathlib import Path
from typing import Any

from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

STAMP = Path("harness") / "commit.json"


def describe_checkout() -> dict[str, Any] | None:
    """Return the git commit of the current folder and whether its files differ from that commit; None where the
    folder is no git checkout."""
    if not Path(".git").exists():
        return None
    try:
        commit, changes = (
            subprocess.run(["git", *command], capture_output=True, text=True, check=True).stdout.strip()
            for command in (["rev-parse", "HEAD"], ["status", "--porcelain", "--untracked-files=no"])
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return {"commit": commit, "commit_is_dirty": bool(changes)}


def write_stamp(folder: str) -> None:
    """Write the file with the checkout's commit below `folder`; outside a checkout do nothing, since a source archive
    contains that file."""
    stamp = describe_checkout()
    if stamp is not None:
        (Path(folder) / STAMP).write_text(json.dumps(stamp) + "\n", encoding="utf-8")


class StampedBuild(build_py):
    """setuptools command (build_py) that copies the packages and writes the file with the git commit into the copy;
    for an editable install it writes none."""

    def run(self) -> None:
        """Copy the packages, then write the file with the commit into the copy."""
        super().run()
        if not self.editable_mode:
            write_stamp(self.build_lib)


class StampedArchive(sdist):
    """setuptools command (sdist) that makes the source archive, including the file with the git commit."""

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        """Make the source archive's tree, then write the file with the commit into it."""
        super().make_release_tree(base_dir, files)
        write_stamp(base_dir)
