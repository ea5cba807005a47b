"""--power-command comes from the command line alone: recorded as text, asked for again, given by nothing else."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from made_sets import made_in
from sweep_builder import FastWorkers

from harness.launch.process import WorkerEnd
from rules.benchmarks.loader import load_benchmark, read_definition_text

Command = Callable[..., tuple[int, str, str]]


@pytest.mark.slow
def test_it_is_recorded_and_asked_for_again(call: Command, workers: FastWorkers, tmp_path: Path) -> None:
    meter = "touch seen; echo 100"
    assert call("run", "dlrm_tiny", "-n", 1, "--threads", 1, "--power-command", meter)[0] == 0
    (folder,) = made_in(tmp_path / "results")
    assert json.loads((folder / "extra/run_set.json").read_text())["hooks"] == {"power-command": meter}
    assert [spec["power_command"] for spec in workers.launches] == [meter]
    for words in ((), ("--power-command", "echo 5")):
        code, _, err = call("resume", folder, "-n", 2, *words)
        assert code == 2 and f"--power-command '{meter}'" in err
    code, _, err = call("run", "--beside", folder, "-n", 5)
    assert code == 2 and f"--power-command '{meter}'" in err
    assert len(workers.launches) == 1 and not (tmp_path / "seen").exists()
    assert call("resume", folder, "-n", 2, "--power-command", meter)[0] == 0
    assert [spec["power_command"] for spec in workers.launches] == [meter] * 2


def test_a_set_without_it_is_not_resumed_with_it(call: Command, workers: FastWorkers, tmp_path: Path) -> None:
    assert call("run", "dlrm_tiny", "-n", 1, "--threads", 1)[0] == 0
    assert "power_command" not in workers.launches[0]
    (folder,) = made_in(tmp_path / "results")
    code, _, err = call("resume", folder, "-n", 2, "--power-command", "echo 1")
    assert code == 2 and "was begun without --power-command" in err


@pytest.mark.parametrize("key", ["runtime.power_command", "runtime.power-command", "hooks.power-command"])
@pytest.mark.parametrize("place", ["set", "file", "environment", "definition"])
def test_nothing_but_the_option_gives_it(
    key: str, place: str, call: Command, workers: FastWorkers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    section, _, name = key.partition(".")
    words: tuple[object, ...] = ()
    benchmark: object = "dlrm_tiny"
    if place == "set":
        words = ("--set", f"{key}=touch seen")
    elif place == "file":
        (tmp_path / "given.toml").write_text(f'[{section}]\n{name} = "touch seen"\n')
        words = ("-c", "given.toml")
    elif place == "environment":
        monkeypatch.setenv(f"DLRMBENCH_{section.upper()}_{name.upper()}", "touch seen")
    else:
        text = read_definition_text(load_benchmark("dlrm_tiny").path)
        head, mark, rest = text.partition("[runtime]\n")
        extra = f'{name} = "touch seen"\n' if section == "runtime" else ""
        table = "" if section == "runtime" else f'\n[{section}]\n{name} = "touch seen"\n'
        benchmark = tmp_path / "own.toml"
        benchmark.write_text(head.replace('"dlrm_tiny"', '"own"') + mark + extra + rest + table)
    code, _, err = call("run", benchmark, "-n", 1, "--threads", 1, *words)
    assert code == 2 and workers.launches == [], err
    assert not (tmp_path / "seen").exists()


def test_the_variable_of_its_name_is_no_option(
    call: Command, workers: FastWorkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DLRMBENCH_POWER_COMMAND", "echo 1")
    code, _, _ = call("run", "dlrm_tiny", "-n", 1, "--threads", 1)
    assert code == 2 and workers.launches == []


@pytest.mark.slow
@pytest.mark.parametrize("verb", [("sweep", "--axis", "train.opt_base_learning_rate=0.05,0.06"), ("run",)])
def test_every_run_is_asked_alike(verb: tuple[str, ...], call: Command, workers: FastWorkers) -> None:
    assert call(*verb, "dlrm_tiny", "-n", 2, "--threads", 1, "--power-command", "echo 7")[0] == 0
    assert {spec["power_command"] for spec in workers.launches} == {"echo 7"} and len(workers.launches) >= 2


def test_one_that_gives_nothing_is_said_once_and_to_who_wants_no_progress_too(
    call: Command, workers: FastWorkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    reason = "it ended with 1 and printed '', expected watts: a number alone."

    def launch(spec_path: Path, **options: Any) -> WorkerEnd:
        end, path = workers(spec_path, **options), spec_path.parent / "measured.json"
        gap = {"what": "power command", "reason": reason}
        energy = {
            "energy_j": None,
            "duration_s": 1.0,
            "sampling_interval_s": None,
            "parts": [],
            "not_measured": [gap],
        }
        measured = json.loads(path.read_text())
        measured["processes"][0]["energy"] = energy
        path.write_text(json.dumps(measured))
        return end

    monkeypatch.setattr("harness.experiment.executors.launch_worker", launch)
    for quiet in ((), ("-q",)):
        code, _, err = call("run", "dlrm_tiny", "--throughput", 4, "--threads", 1, "--power-command", "false", *quiet)
        assert code == 0 and err.count(f"warning: no energy from --power-command: {reason}") == 1, err
