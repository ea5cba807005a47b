"""Commands that drive runs say and leave what they did: `python tests/builders/goldens.py --write` writes it anew."""

from pathlib import Path

import pytest
from golden_scenarios import SCENARIOS
from goldens import FOLDER, lay_data, tell


@pytest.mark.parametrize("name", SCENARIOS)
def test_commands_say_and_leave_what_they_did(name: str, data_root: Path, tmp_path: Path) -> None:
    told = tell(SCENARIOS[name], lay_data(data_root, tmp_path / "place"))
    assert told.splitlines() == (FOLDER / f"{name}.txt").read_text(encoding="utf-8").splitlines()


def test_each_golden_is_one_of_a_scenario() -> None:
    assert {path.stem for path in FOLDER.glob("*.txt")} == set(SCENARIOS)
