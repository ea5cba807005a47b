"""Which files Python ran before the harness: found without running them again, with their digests."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from places import ROOT

from harness.system.software import select_environment_variables

CODE = (
    "import json, sys; from dataclasses import asdict; from harness.system.startup import find_startup_files; "
    "print(json.dumps([asdict(file) for file in find_startup_files()]))"
)


def find_in_a_process(path: str) -> list[dict[str, str]]:
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": f"{path}{os.pathsep}{ROOT}" if path else str(ROOT)},
    )
    found: list[dict[str, str]] = json.loads(done.stdout)
    return found


@pytest.mark.once("a sitecustomize is on record")
def test_a_sitecustomize_is_named_with_its_digest(tmp_path: Path) -> None:
    file = tmp_path / "sitecustomize.py"
    file.write_text("ran = True\n")
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    assert {"kind": "sitecustomize", "path": str(file), "sha256": digest} in find_in_a_process(str(tmp_path))
    assert not [entry for entry in find_in_a_process("") if entry["path"] == str(file)]


def test_where_python_looks_for_code_is_on_record() -> None:
    given = {"PYTHONPATH": "/a:/b", "PYTHONSTARTUP": "/c.py", "PYTHONHOME": "/d", "PYTHONX": "1"}
    assert sorted(select_environment_variables(given)) == ["PYTHONHOME", "PYTHONPATH", "PYTHONSTARTUP"]
