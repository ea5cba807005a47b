"""A second environment with a dlrmbench of its own, as `python -m venv` makes one, without asking any index."""

import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

from harness.system.code import PACKAGES

ROOT = Path(__file__).parents[2]
SLOWED = (
    "        num_samples = train_steps(workload.train, job.num_steps)\n",
    "        __import__('time').sleep(0.5)\n",
)
"""The line of harness/measure/throughput.py that is timed, and what `slow_down` puts before it."""


def make_environment(folder: Path, change: Callable[[Path], None] = lambda tree: None) -> Path:
    """Make an environment whose dlrmbench is a copy of the packages, changed; everything else is this one's.

    Returns its interpreter.
    """
    tree = folder / "tree"
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tree / package, ignore=shutil.ignore_patterns("__pycache__"))
    change(tree)
    python = make_bare_environment(folder)
    (site,) = folder.glob("lib/python*/site-packages")
    others = [path for path in map(Path, sys.path) if path.name == "site-packages"]
    (site / "a_tree.pth").write_text(f"{tree}\n")
    (site / "b_others.pth").write_text("".join(f"{path}\n" for path in others))
    return python


def make_bare_environment(folder: Path) -> Path:
    """Make an environment without any package; returns its interpreter."""
    options = ["--without-pip"] + (["--symlinks"] if sysconfig.get_platform().startswith("linux") else [])
    subprocess.run([sys.executable, "-m", "venv", *options, str(folder)], check=True)
    return folder / "bin" / "python"


def slow_down(tree: Path) -> None:
    """Let every measurement of throughput take half a second longer."""
    path, (line, before) = tree / "harness" / "measure" / "throughput.py", SLOWED
    text = path.read_text(encoding="utf-8")
    assert text.count(line) == 1
    path.write_text(text.replace(line, before + line), encoding="utf-8")
