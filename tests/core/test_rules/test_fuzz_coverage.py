"""Coverage-guided fuzzing, where atheris is installed (`pip install atheris`; it is no dependency)."""

import re
import subprocess
import sys
from importlib.util import find_spec

import pytest
from places import TESTS

needs_atheris = pytest.mark.skipif(
    find_spec("atheris") is None, reason="atheris is not installed (pip install atheris)"
)
NUM_INPUTS = 40_000


@pytest.mark.long
@needs_atheris
@pytest.mark.parametrize("seed", [1, 2])
def test_inputs_that_reach_new_code_are_judged(seed: int) -> None:
    """The fuzzer keeps inputs that reach branches that no input reached before, and changes those further."""
    done = subprocess.run(
        [sys.executable, "fuzz_coverage.py", str(NUM_INPUTS), str(seed)],
        capture_output=True,
        text=True,
        cwd=TESTS / "builders",
        errors="replace",
        check=False,
    )
    assert done.returncode == 0, done.stderr[-6000:]
    assert re.search(rf"Done {NUM_INPUTS} runs", done.stderr), done.stderr[-2000:]
