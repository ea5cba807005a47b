"""Build commands, named in pyproject.toml, that write the commit of the checkout into the built copy.

Imported by setuptools alone, by path and before anything is installed, so it imports nothing of the product.
"""

import json
import subprocess
from pathlib import Path
from typing import Any

from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

STAMP = Path("harness") / "commit.json"


def describe_checkout() -> dict[str, Any] | None:
    """Return the commit of the current folder if it is a checkout; None elsewhere."""
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
    """Write the stamp below `folder`; outside a checkout do nothing, since a source archive contains its stamp."""
    stamp = describe_checkout()
    if stamp is not None:
        (Path(folder) / STAMP).write_text(json.dumps(stamp) + "\n", encoding="utf-8")


class StampedBuild(build_py):
    """Copies the packages and stamps the copy; an editable install needs no stamp."""

    def run(self) -> None:
        """Copy, then stamp."""
        super().run()
        if not self.editable_mode:
            write_stamp(self.build_lib)


class StampedArchive(sdist):
    """Makes the source archive, with the stamp."""

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        """Make the archive's tree, then stamp it."""
        super().make_release_tree(base_dir, files)
        write_stamp(base_dir)
