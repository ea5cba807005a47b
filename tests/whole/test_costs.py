"""Tests that cost much and lack a mark are named when a session ends, and fail it only where that is asked for."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from costs import LOOP_S, QUICK_UNITS, Costs
from places import TESTS
from waiting import HANG_S

CONFTEST = f"""
import sys
sys.path.insert(0, {str(TESTS / "builders")!r})
import costs
def pytest_configure(config):
    config.pluginmanager.register(costs.Costs(config, config.getoption("budget")), "costs")
def pytest_addoption(parser):
    parser.addoption("--budget", type=float, default=100)
"""
PLANTED = """
import sys
from costs import LOOP_S, loop, time_loop
import pytest
def spend(units):
    for _ in range(round(units / LOOP_S)):
        loop()
def test_dear(): spend(3)
@pytest.mark.{mark}
def test_marked(): spend(1.5)
def test_that_imports_first():
    if "planted_as_imported" not in sys.modules:
        sys.modules["planted_as_imported"] = sys
        spend(1.5)
def test_quick(): pass
"""


def run_planted(
    folder: Path, *options: str, mark: str = "once", **variables: str
) -> "subprocess.CompletedProcess[str]":
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_planted.py").write_text(PLANTED.format(mark=mark))
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n  once\n  slow\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", *options]
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "TEST_COSTS"))
    }
    return subprocess.run(
        command, cwd=folder, env=environment | variables, capture_output=True, text=True, timeout=HANG_S, check=False
    )


def named(done: "subprocess.CompletedProcess[str]") -> list[str]:
    return [line.split("::")[1].split()[0] for line in done.stdout.splitlines() if "no mark: " in line]


@pytest.mark.parametrize(
    "workers", [pytest.param("2", marks=pytest.mark.slow), pytest.param("0", marks=pytest.mark.long)]
)
def test_what_is_dear_in_two_tries_is_named_and_fails_where_that_is_asked_for(tmp_path: Path, workers: str) -> None:
    """Not what a first import cost."""
    told = run_planted(tmp_path, "-n", workers)
    assert told.returncode == 0 and named(told) == ["test_dear"], told.stdout + told.stderr
    asserted = run_planted(tmp_path, "-n", workers, TEST_COSTS="assert")
    assert asserted.returncode == 1 and named(asserted) == ["test_dear"], asserted.stdout + asserted.stderr


@pytest.mark.slow
def test_more_than_all_may_cost_is_said(tmp_path: Path) -> None:
    told = run_planted(tmp_path, "--budget", "4", "--deselect", "test_planted.py::test_dear", mark="slow")
    assert told.returncode == 0 and "marked wrongly" not in told.stdout
    over = run_planted(tmp_path, "--budget", "2", "--deselect", "test_planted.py::test_dear", TEST_COSTS="assert")
    assert over.returncode == 1 and "units in all, 2 allowed" in over.stdout


@pytest.mark.parametrize(("slowness", "expected"), [(1.0, ["dear"]), (2.0, ["dear"]), (4.0, [])])
def test_a_unit_is_as_long_as_the_cpu_at_hand_takes(
    request: pytest.FixtureRequest, slowness: float, expected: list[str]
) -> None:
    """A test of 3 s costs 3 units where the loop takes as long as on the CPU of the unit, 1.5 on a slower one."""
    costs = Costs(request.config, budget=10)
    costs.is_worker, costs.loops = False, [LOOP_S * slowness] * 5
    costs.seconds, costs.unmarked_s = {"dear": 3.0, "quick": 0.1}, {"dear": 3.0}
    assert costs.measured()["units"]["dear"] == pytest.approx(3.0 / slowness)
    assert list(costs.measured()["unmarked"]) == expected
    assert QUICK_UNITS == 1.0
