"""Own code is looked at in a child: what it answers comes back, and of its errors the words and the exit code."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from waiting import HANG_S

from harness.config.run_config import Override
from harness.experiment.apart import names_outside_code
from harness.experiment.request import Request

CODE = """
import os, sys
from harness.experiment.apart import look_apart
from harness.experiment.request import RequestError
from harness.foundation.errors import HarnessError
from reference_models.process.errors import ConfigError
parent = os.getpid()
def work():
    {work}
try:
    print(look_apart(work, str))
except HarnessError as error:
    print(type(error).__name__, int(error.exit_code), error)
"""


def look(work: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", CODE.replace("{work}", work)],
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=True,
    )
    return done.stdout.strip()


@pytest.mark.once("own code is looked at in a child")
def test_the_work_is_done_in_a_child_of_this_process() -> None:
    assert look("return str(os.getppid() == parent)") == "True"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("work", "expected"),
    [
        ("raise RequestError('a and b')", "RequestError 2 a and b"),
        ("raise ConfigError('no such')", "HarnessError 2 no such"),
        ("raise HarnessError('too small', 9)", "HarnessError 9 too small"),
        ("raise ValueError('a defect')", "HarnessError 1 ValueError: a defect"),
        ("os._exit(3)", "HarnessError 9 your own code ended the process that imported it (3)."),
    ],
)
def test_what_it_raises_is_raised_here_with_its_words(work: str, expected: str) -> None:
    assert look(work) == expected


def request(**members: Any) -> Request:
    return Request(**{"benchmark": "dlrm_tiny", **members})


def set_to(key: str, value: str) -> tuple[Override, ...]:
    return (Override(key=key, value=value, source="option"),)


@pytest.mark.parametrize(
    ("asked", "is_outside"),
    [
        (request(), False),
        (request(overrides=set_to("runtime.implementation", "optimized")), False),
        (request(overrides=set_to("runtime.implementation", "mine.py:Mine")), True),
        (request(overrides=set_to("runtime.implementation", "theirs")), True),
        (request(overrides=set_to("runtime.model", "mine.py:SPEC")), True),
        (request(axes=("runtime.implementation=reference,mine.py:Mine",)), True),
        (request(axes=("runtime.threads=1,2",)), False),
        (request(benchmark="no_such"), False),
    ],
)
def test_whose_code_is_asked_for_is_told_by_names(asked: Request, is_outside: bool) -> None:
    assert names_outside_code(asked) is is_outside


OWN = """
import os
from pathlib import Path
from reference_models.dlrm.reference import ReferenceWorkload as Mine
with Path(__file__).with_name("seen").open("a") as file:
    file.write(f"{os.getpid()} {Path('/proc/self/cmdline').read_bytes().split(bytes(1))[2:4]}\\n")
"""


@pytest.mark.slow
def test_the_command_that_starts_runs_imports_no_own_code(data_root: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(OWN)
    code = (
        "import os, sys; from harness.cli import main; from reference_models.process.errors import OWN_CODE\n"
        "try:\n    main(sys.argv[1:])\n"
        "finally:\n    print([name for name in sys.modules if name.startswith(OWN_CODE)], os.getpid())"
    )
    words = (
        "run", "dlrm_tiny", "-n", 1, "--timeout", 0.001, "--implementation", f"{tmp_path / 'mine.py'}:Mine",
        "--data", data_root, "--threads", 1, "-q", "-o", "out",
    )  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, words)], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    imported, _, pid = done.stdout.splitlines()[-1].rpartition(" ")
    assert imported == "[]", done.stderr
    seen = (tmp_path / "seen").read_text().splitlines()
    assert len(seen) == 2 and not any(line.startswith(f"{pid} ") for line in seen), seen
