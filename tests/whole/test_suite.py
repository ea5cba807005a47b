"""The tests themselves: every process that collects them collects the same ones, whenever it does."""

import os
import re
import subprocess
import sys

import pytest
from examples import examples
from hypothesis import settings
from places import ROOT, TESTS
from waiting import HANG_S


def collect(hash_seed: int) -> list[str]:
    """Node ids in the order in which a fresh process collects them."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return [line for line in done.stdout.splitlines() if line.startswith("tests/")]


@pytest.mark.long
def test_the_same_tests_are_collected_at_another_time_and_with_another_hash_seed() -> None:
    """One collection takes longer than a second, so the clock has gone on before the next."""
    first = collect(1)
    assert len(first) > 1000
    assert first == collect(2)


def test_examples_are_drawn_anew_only_where_that_was_asked_for(request: pytest.FixtureRequest) -> None:
    asked = request.config.getoption("--hypothesis-profile")
    assert settings().derandomize == (asked != "random")


def test_the_profile_says_how_many_examples_are_drawn(request: pytest.FixtureRequest) -> None:
    """Of what a test asks for, the share that a test draws which asks for no number."""
    is_quick = request.config.getoption("--hypothesis-profile") == "quick"
    assert settings().max_examples == examples(100) == (10 if is_quick else 100)
    assert [examples(num) for num in (2, 40, 200)] == ([2, 5, 20] if is_quick else [2, 40, 200])


def test_no_test_asks_for_a_number_of_examples_whatever_the_profile() -> None:
    files = sorted(TESTS.rglob("*.py"))
    fixed = [path.name for path in files if re.search(r"max_examples=\d", path.read_text("utf-8"))]
    assert fixed == ["conftest.py"]
