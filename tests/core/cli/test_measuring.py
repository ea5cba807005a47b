"""Whatever measures looks at the machine: it warns of a load, however little else is said, and has it on record.

The verbs are those of the registry: a new one needs a command line in `measuring`, or why it measures nothing.
"""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import scripted_commands
from goldens import lay_data
from hostile_folders import write_inputs
from measuring import MEASURED_SLOWLY, MEASURING, MEASURING_NOTHING
from scripted_commands import Ended, run_scripted_command
from scripted_workers import Moment, ScriptedWorkers

from harness.cli import COMMANDS
from reports.parts.load import environment_words
from rules.records.load import LoadRecord

LOOKED_AT = (
    "harness.system.hardware:read_processors",
    "harness.system.load:read_load",
    "harness.system.preflight:run_checks",
)
"""What scripted commands replace, and is real here: only what the kernel says is planted."""
IDLE, BUSY = 0.01, 8.0
CASES = [pytest.param(what, marks=[pytest.mark.slow] * (what in MEASURED_SLOWLY)) for what in MEASURING]


@pytest.fixture
def plant(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Plant a load average on a system of two CPUs."""
    replaced = scripted_commands.seams

    def seams(workers: ScriptedWorkers) -> Mapping[str, Callable[..., Any]]:
        return {place: stand_in for place, stand_in in replaced(workers).items() if place not in LOOKED_AT}

    monkeypatch.setattr(scripted_commands, "seams", seams)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    return lambda load: monkeypatch.setattr(os, "getloadavg", lambda: (load,) * 3)


def run(words: str, folder: Path, passed_s: float) -> Ended:
    return run_scripted_command(words.split(), folder, ScriptedWorkers(Moment(passed_s)))


def test_of_every_verb_it_is_known_whether_it_measures() -> None:
    measuring = {what.split()[0] for what in MEASURING}
    assert measuring | {*MEASURING_NOTHING} == {*COMMANDS}
    assert not measuring & {*MEASURING_NOTHING}


@pytest.mark.parametrize("what", CASES)
def test_a_load_is_warned_of_and_on_record(
    what: str, plant: Callable[[float], None], data_root: Path, tmp_path: Path
) -> None:
    before, words = MEASURING[what]
    folder = lay_data(data_root, tmp_path / "here")
    write_inputs(folder)
    plant(IDLE)
    for each in before:
        assert run(each, folder, 0.0).code in (0, 3)
    plant(BUSY)
    ended = run(words, folder, 3600.0)
    assert ended.code in (0, 3), ended.err
    assert "warning: load: 8.00 over the last minute on 2 CPUs." in ended.err
    written = [path.read_text(encoding="utf-8") for path in folder.rglob("*.json") if not path.is_symlink()]
    kept = [text.replace(" = ", ": ") for text in (*written, ended.out)]
    assert any(f'load_avg_before": {BUSY}' in text or f"load_avg_before: {BUSY}" in text for text in kept)


def test_each_run_has_the_load_of_its_own_time(
    plant: Callable[[float], None], data_root: Path, tmp_path: Path
) -> None:
    folder = lay_data(data_root, tmp_path / "here")
    plant(IDLE)
    assert run("run dlrm_tiny --threads 1 -n 1 -q --seed 1", folder, 0.0).code in (0, 3)
    plant(BUSY)
    assert run("resume results/latest -n 2 -q", folder, 3600.0).code in (0, 3)
    kept = [
        json.loads(path.read_text()) for path in sorted(folder.glob("results/*-*/extra/run_*/attempt_0/run.json"))
    ]
    assert [[load["load_avg_before"] for load in each["loads"]] for each in kept] == [[IDLE], [BUSY]]
    page = (folder / "results" / "latest" / "report.html").read_text(encoding="utf-8")
    assert "at a load average of 0.01 – 8.00 when the 2 processes began" in page


def test_processes_of_an_earlier_version_have_no_load(
    plant: Callable[[float], None], data_root: Path, tmp_path: Path
) -> None:
    folder = lay_data(data_root, tmp_path / "here")
    plant(IDLE)
    assert run("run dlrm_tiny --throughput 10 --threads 1 -q --seed 5", folder, 0.0).code == 0
    (first,) = folder.glob("results/*-*/extra/throughput_0/measured.json")
    content = json.loads(first.read_text())
    assert len(content.pop("loads")) == 1
    first.write_text(json.dumps(content))
    assert run("resume results/latest -n 6 -q", folder, 3600.0).code == 0
    kept = json.loads((first.parents[1] / "throughput.json").read_text())["loads"]
    assert [None if load is None else load["load_avg_before"] for load in kept] == [None, *[IDLE] * 5]
    assert run("report results/latest --no-second-opinion", folder, 7200.0).code == 0
    assert "at a load average of 0.01 when the 5 processes began" in (folder / "report.html").read_text()


def test_the_page_of_a_study_says_what_could_disturb_it(
    plant: Callable[[float], None], data_root: Path, tmp_path: Path
) -> None:
    folder = lay_data(data_root, tmp_path / "here")
    plant(BUSY)
    ended = run("profile dlrm_tiny --forward --threads 1 -q", folder, 0.0)
    assert ended.code == 0 and "Warnings of the environment check: " in " ".join(ended.out.split())
    (page,) = folder.glob("results/*/report.html")
    text = page.read_text(encoding="utf-8")
    assert "Noise and environment" in text and "8.00 over the last minute on 2 CPUs" in text
    assert "Measured at a load average of 8.00 when" in text


def test_what_is_not_known_is_not_said() -> None:
    nothing = LoadRecord(num_cpus=2, duration_s=1.0, load_avg_before=None, load_avg_after=None, other_cpus=None)
    assert environment_words((), ()) is None and environment_words((), (nothing, None)) is None
