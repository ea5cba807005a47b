"""The tests of the core pass in a copy of the checkout without any extension: none of them needs one."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from deletion import ROOT, link_product

from rules.extensions import EXTENSIONS

CHECKOUT = (".ci", ".github", ".gitignore", ".gitlab-ci.yml", "CONTRIBUTING.md", "LICENSE", "MANIFEST.in", "Makefile",
            "README.md", "pyproject.toml", "tests")  # fmt: skip
"""What a copy of the checkout has beside the packages."""


def run_core_tests(tree: Path, marker: str, profile: str) -> None:
    """Run the tests of the core in a copy of the checkout without extensions, with as many workers as this run, and
    as many examples as that profile of Hypothesis draws."""
    link_product(tree, set(EXTENSIONS), *(path.name for path in ROOT.iterdir() if path.name in CHECKOUT))
    shutil.rmtree(tree / "tests" / "whole")
    # Before a test bounds the size of files: of a write that is cut short, Python keeps half a module as a whole one.
    subprocess.run([sys.executable, "-m", "compileall", "-q", tree], check=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment["PYTHONPATH"] = str(tree)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", marker, "tests/core"]
    command += [
        "--hypothesis-profile",
        profile,
        "-n",
        os.environ.get("JOBS", "2"),
        "--dist",
        "loadfile",
        f"--basetemp={tree}-tests",
    ]
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-8000:]


@pytest.mark.slow
def test_quick_tests_of_the_core_pass_without_any_extension(tmp_path: Path) -> None:
    run_core_tests(tmp_path / "tree", "not slow and not long and not gpu", "quick")


@pytest.mark.long
def test_all_tests_of_the_core_pass_without_any_extension(tmp_path: Path) -> None:
    run_core_tests(tmp_path / "tree", "not gpu", "repeatable")
