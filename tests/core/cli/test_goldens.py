"""Commands that drive runs say and leave what they did: `python tests/builders/goldens.py --write` writes it anew."""

from pathlib import Path

import pytest
from goldens import FOLDER, find_refusals, find_scenarios, lay_data, tell, tell_refusals
from places import TESTS
from stored_folders import find_stories, tell_resumed

SCENARIOS = find_scenarios()
STORIES = find_stories()
REFUSALS = find_refusals()


VARIED = (
    "_tuned",
    "_csv",
    "_json",
    "_starved",
    "_serve",
    "_serve_dry",
    "_profile",
    "_of_benchmark",
    "_not_converged",
    "_of_interpreters",
    "pair_throughput",
    "sweep_throughput",
    "sweep_quality",
    "sweep_failure",
    "until_interrupted",
    "_run_options",
    "api_sweep",
    "_threads",
)
"""Ends of names of stories that vary another one, which `make test` leaves to `make test-all`."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * name.endswith(VARIED)) for name in SCENARIOS]
)
def test_commands_say_and_leave_what_they_did(name: str, data_root: Path, tmp_path: Path) -> None:
    steps, path = SCENARIOS[name]
    told = tell(steps, lay_data(data_root, tmp_path / "place"))
    assert told.splitlines() == path.read_text(encoding="utf-8").splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("verb", REFUSALS)
def test_commands_refuse_what_they_did_and_write_nothing(verb: str, data_root: Path, tmp_path: Path) -> None:
    told = tell_refusals(verb, lay_data(data_root, tmp_path / "place"))
    assert not [line for line in told.splitlines() if line.startswith(("exit 0", "launched", "written"))]
    assert told.splitlines() == REFUSALS[verb][1].read_text(encoding="utf-8").splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("name", STORIES)
def test_a_folder_of_an_earlier_version_is_gone_on_with_as_it_was(name: str, data_root: Path, tmp_path: Path) -> None:
    told = tell_resumed(name, lay_data(data_root, tmp_path / "place"))
    assert told.splitlines() == STORIES[name][1].read_text(encoding="utf-8").splitlines()


def test_each_golden_is_one_of_a_scenario() -> None:
    told = {path for _, path in (*SCENARIOS.values(), *STORIES.values(), *REFUSALS.values())}
    assert {*FOLDER.glob("*.txt"), *(TESTS / "extensions").glob("*/goldens/*")} == told
