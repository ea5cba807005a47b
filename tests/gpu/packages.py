"""Packages that a bare Python lacks: which they are by our metadata, and wheels brought along, unpacked beside it.

Standard library only, and pip where there are wheels to unpack.
"""

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

TESTS_NEED = ("pytest", "hypothesis", "nvidia-ml-py")
"""Of the extra `test`: what the tests that need a GPU import."""
NOT_OURS_TO_BRING = ("torch",)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def normal(name: str) -> str:
    """Return a distribution's name as indexes spell it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def name_of(requirement: str) -> str:
    """Return the normal name at the start of a requirement."""
    match = _NAME.match(requirement.strip())
    assert match is not None, requirement
    return normal(match.group())


def read_project(root: Path) -> dict[str, Any]:
    """Read [project] of pyproject.toml."""
    project: dict[str, Any] = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return project


def requirements(project: Mapping[str, Any]) -> list[str]:
    """List what `make gpu` imports beside torch: our dependencies, and those of our tests that it runs."""
    tests = [line for line in project["optional-dependencies"]["test"] if name_of(line) in TESTS_NEED]
    return [line for line in [*project["dependencies"], *tests] if name_of(line) not in NOT_OURS_TO_BRING]


def missing_packages(root: Path, site: Path) -> list[str]:
    """List the distributions that neither this Python nor `site` has, torch among them."""
    here = {normal(found.metadata["Name"] or "") for found in distributions(path=[str(site), *sys.path])}
    return [name for name in [*map(name_of, requirements(read_project(root))), "torch"] if name not in here]


def wheels_folder(root: Path, python: str) -> Path:
    """Return where the wheels for a Python "3.12" are brought along."""
    return root / ".whl" / f"cp{python.replace('.', '')}"


def prepare_site(root: Path, site: Path) -> str:
    """Unpack the wheels for this Python into `site`, once, and name the checkout as dlrmbench; returns a problem."""
    wheels = sorted(wheels_folder(root, f"{sys.version_info.major}.{sys.version_info.minor}").glob("*.whl"))
    stamp, says = site / "wheels.txt", "\n".join(f"{wheel.name} {wheel.stat().st_size}" for wheel in wheels)
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != says:
        shutil.rmtree(site, ignore_errors=True)
        site.mkdir(parents=True)
        if wheels:
            options = ("--no-index", "--no-deps", "--no-compile", "--disable-pip-version-check", "--quiet")
            command = [sys.executable, "-m", "pip", "install", *options, "--target", str(site), *map(str, wheels)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                return f"the wheels in {wheels[0].parent} cannot be unpacked: {done.stderr.strip()[-300:]}"
        _describe_checkout(root, site)
        stamp.write_text(says, encoding="utf-8")
    return ""


def _describe_checkout(root: Path, site: Path) -> None:
    """Write what an installed dlrmbench is asked for: its name, version and requirements."""
    project = read_project(root)
    folder = site / f"{project['name']}-{project['version']}.dist-info"
    folder.mkdir()
    lines = ["Metadata-Version: 2.1", *(f"{key}: {project[key.lower()]}" for key in ("Name", "Version"))]
    lines += [f"Summary: {project['description']}", *(f"Requires-Dist: {line}" for line in project["dependencies"])]
    (folder / "METADATA").write_text("\n".join(lines) + "\n", encoding="utf-8")
