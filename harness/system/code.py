"""Identify the code of dlrmbench that is running, by the digest of its files and their commit. Also provide the
environment variables with which child processes run the same code.

Used by the command line, the parents of runs and the runs themselves. An installed copy has its commit in
COMMIT_FILE, which the build writes (harness/foundation/build_stamp.py).
"""

import hashlib
import json
import os
import sys
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.system.resources import run_for_output

if TYPE_CHECKING:
    from rules.records.measure import CodeRecord

PACKAGES = ("harness", "reference_models", "rules", "reports")
COMMIT_FILE = "commit.json"
_SUFFIXES = frozenset((".py", ".toml", ".json", ".npz", ".j2", ".css", ".js"))
_PACKAGE = Path(__file__).resolve().parents[1]


@cache
def code_sha256() -> str:
    """Return the digest of dlrmbench's code: the files of its four packages, in the folders from which this process
    imports them.

    The digest covers the contents of all code and installed data, and the files' names below the packages, but not
    shipped results. Equal files give equal digests, wherever they are.
    """
    digest = hashlib.sha256()
    for package in PACKAGES:
        spec = find_spec(package)
        assert spec is not None and spec.submodule_search_locations
        root = Path(spec.submodule_search_locations[0])
        for path in sorted(path for path in root.rglob("*") if path.suffix in _SUFFIXES and path.is_file()):
            name = path.relative_to(root.parent).as_posix()
            if name != f"harness/{COMMIT_FILE}" and not name.startswith("reports/reference_systems/"):
                digest.update(f"{name}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()


@cache
def describe_code() -> "CodeRecord":
    """Return the record of dlrmbench's code that this process runs.

    The first call may start git, so ranks make it before they connect to each other.
    """
    from rules.records.measure import CodeRecord  # imported late: --help imports this module and needs no records

    return CodeRecord(sha256=code_sha256(), **describe_commit())


def describe_commit(package: Path = _PACKAGE) -> dict[str, Any]:
    """Return the git commit of dlrmbench's code, and whether files of the checkout differed from that commit. The
    checkout is the one that contains `package`; for an installed copy, it is the checkout from which the copy was
    built.

    Each of the two values is None if it is unknown.
    """
    checkout = package.parent
    if not (checkout / ".git").exists() or not (checkout / "pyproject.toml").exists():
        return _read_stamp(package / COMMIT_FILE)
    git = ("git", "-C", str(checkout))
    commit = run_for_output(*git, "rev-parse", "HEAD")
    # Asking must not refresh the index of a checkout that may be read-only or in use.
    changes = run_for_output(*git, "status", "--porcelain", "--untracked-files=no", GIT_OPTIONAL_LOCKS="0")
    return {"commit": commit or None, "commit_is_dirty": None if changes is None else bool(changes)}


def _read_stamp(path: Path) -> dict[str, Any]:
    try:
        stamp = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        stamp = {}
    return {"commit": stamp.get("commit"), "commit_is_dirty": stamp.get("commit_is_dirty")}


def other_path_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables `environ` for starting another Python interpreter, without the paths that
    would make it import this interpreter's packages."""
    variables = {name: value for name, value in environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    return {**variables, "PYTHONSAFEPATH": "1"}


def safe_path_variables() -> dict[str, str]:
    """Return environment variables with which child processes import the same code as this process, and nothing from
    the current folder.

    Where this process was started as `python -m harness` in a checkout, and so found its code in the current folder,
    that folder is added to PYTHONPATH.
    """
    variables = {"PYTHONSAFEPATH": "1"}
    root = str(_PACKAGE.parent)
    if not sys.flags.safe_path and os.path.realpath(sys.path[0]) == root:
        given = os.environ.get("PYTHONPATH")
        variables["PYTHONPATH"] = root if not given else f"{root}{os.pathsep}{given}"
    return variables
