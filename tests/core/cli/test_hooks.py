"""--prepare and --cleanup run around each run, and only for being asked; --log-to says what happens."""

import io
import json
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import jsonschema
import pytest
from made_sets import made_in
from places import ROOT
from sweep_builder import FastWorkers
from waiting import HANG_S

from rules.records.codec import Damage, decode, json_schema
from rules.records.kept.event import EventRecord
from rules.records.kept.hooks import HOOKS_FILE, MAX_OUTPUT, HooksRecord

Command = Callable[..., tuple[int, str, str]]
PAGE = ROOT / "harness" / "experiment" / "README.md"


def hooks_of(folder: Path) -> list[HooksRecord]:
    found = [decode(path, HooksRecord) for path in sorted(folder.rglob(HOOKS_FILE))]
    assert not any(isinstance(each, Damage) for each in found)
    return found  # type: ignore[return-value]


def events_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.slow
def test_both_run_around_every_run_and_are_on_record(call: Command, workers: FastWorkers, tmp_path: Path) -> None:
    prepare, cleanup = "echo before >> seen; echo said", "echo after >> seen; echo wrong >&2"
    code, _, err = call("run", "dlrm_tiny", "-n", 3, "--threads", 1, "--prepare", prepare, "--cleanup", cleanup)
    assert code == 0, err
    assert (tmp_path / "seen").read_text().split() == ["before", "after"] * 3
    (folder,) = made_in(tmp_path / "results")
    found = hooks_of(folder)
    assert len(found) == 3
    for each in found:
        assert each.prepare is not None and each.cleanup is not None
        assert (each.prepare.command, each.prepare.exit_code, each.prepare.output) == (prepare, 0, "said\n")
        assert (each.cleanup.command, each.cleanup.exit_code, each.cleanup.output) == (cleanup, 0, "wrong\n")
    assert json.loads((folder / "extra/run_set.json").read_text())["hooks"] == {
        "prepare": prepare,
        "cleanup": cleanup,
    }
    assert len(workers.launches) == 3


@pytest.mark.slow
def test_nothing_starts_them_but_the_one_who_asks(call: Command, command: Command, tmp_path: Path) -> None:
    assert call("run", "dlrm_tiny", "-n", 5, "--threads", 1, "--prepare", "echo once >> seen")[0] == 0
    (folder,) = made_in(tmp_path / "results")
    before = (tmp_path / "seen").read_text()
    assert command("check", folder, "--no-second-opinion")[0] in (0, 3)
    assert command("report", folder, "-o", tmp_path / "page.html", "--no-second-opinion")[0] in (0, 3)
    for words in ((), ("--prepare", "echo other >> seen")):
        code, _, err = call("resume", folder, "-n", 6, *words)
        assert code == 2 and "--prepare 'echo once >> seen'" in err
    code, _, err = call("run", "--beside", folder, "-n", 5, "--set", "train.opt_base_learning_rate=0.02")
    assert code == 2 and "--prepare 'echo once >> seen'" in err
    assert (tmp_path / "seen").read_text() == before
    assert call("resume", folder, "-n", 6, "--prepare", "echo once >> seen")[0] == 0
    assert (tmp_path / "seen").read_text() == before + "once\n"


@pytest.mark.slow
@pytest.mark.parametrize(("words", "number"), [(("--prepare", ""), 0), (("--prepare", "echo other >> seen"), 4)])
def test_both_sides_are_measured_without_them_where_that_is_said(
    words: tuple[str, ...], number: int, call: Command, tmp_path: Path
) -> None:
    assert call("run", "dlrm_tiny", "-n", 1, "--threads", 1, "--prepare", "true", "-o", "one")[0] == 0
    (folder,) = made_in(tmp_path / "one")
    change = ("versus", folder, "-n", 2, "--set", "train.opt_base_learning_rate=0.02")
    code, _, err = call(*change)
    assert code == 2 and "give the same: --prepare true. To measure both without: --prepare ''" in err
    assert call(*change, *words)[0] == 0
    seen = tmp_path / "seen"
    assert (len(seen.read_text().splitlines()) if seen.exists() else 0) == number


def test_a_set_without_them_is_not_resumed_with_them(call: Command, tmp_path: Path) -> None:
    assert call("run", "dlrm_tiny", "-n", 1, "--threads", 1)[0] == 0
    (folder,) = made_in(tmp_path / "results")
    code, _, err = call("resume", folder, "-n", 2, "--cleanup", "touch seen")
    assert code == 2 and "was begun without --cleanup" in err and not (tmp_path / "seen").exists()


@pytest.mark.slow
@pytest.mark.parametrize("verb", [("run",), ("sweep", "--axis", "runtime.threads=1,2")])
def test_one_that_fails_ends_everything_with_what_it_said(
    verb: tuple[str, ...], call: Command, command: Command, workers: FastWorkers, tmp_path: Path
) -> None:
    fails = "test -e ready || { echo '\x1b[2Jno sensor'; exit 7; }"
    code, _, err = call(*verb, "dlrm_tiny", "-n", 2, "--prepare", fails)
    assert code == 2 and "ended with exit code 7" in err and "no sensor" in err and "\x1b" not in err
    assert workers.launches == []
    (folder,) = made_in(tmp_path / "results")
    (failed,) = hooks_of(folder)
    assert failed.prepare is not None and failed.prepare.exit_code == 7
    _, _, err = command("resume", folder, "--prepare", fails)
    assert "not begun: --prepare failed" in err and "interrupted" not in err
    (tmp_path / "ready").touch()
    assert call("resume", folder, "--prepare", fails)[0] == 0


def test_a_set_without_any_run_is_not_the_latest(call: Command, workers: FastWorkers, tmp_path: Path) -> None:
    latest = tmp_path / "results" / "latest"
    assert call("run", "dlrm_tiny", "-n", 1, "--threads", 1, "--prepare", "false")[0] == 2
    assert not latest.is_symlink()
    assert call("run", "dlrm_tiny", "-n", 1, "--threads", 1)[0] == 0
    good = latest.readlink()
    assert call("run", "dlrm_tiny", "-n", 1, "--threads", 1, "--name", "other", "--prepare", "false")[0] == 2
    assert latest.readlink() == good and len(made_in(tmp_path / "results")) == 3


def test_a_cleanup_that_fails_loses_no_run(call: Command, workers: FastWorkers, tmp_path: Path) -> None:
    code, _, err = call("run", "dlrm_tiny", "-n", 2, "--threads", 1, "--cleanup", "exit 3")
    assert code == 2 and "--cleanup 'exit 3' ended with exit code 3. It printed nothing." in err
    (folder,) = made_in(tmp_path / "results")
    assert [path.name for path in folder.rglob("result_*.txt")] == ["result_0.txt"] and len(workers.launches) == 1


@pytest.mark.slow
def test_a_cleanup_runs_after_a_run_that_failed(call: Command, workers: FastWorkers, tmp_path: Path) -> None:
    workers.fail = lambda spec: True
    for ending, expected in (("true", 9), ("exit 3", 2)):
        command = f"echo once >> cleaned; {ending}"
        code, _, err = call("run", "dlrm_tiny", "-n", 2, "--threads", 1, "--cleanup", command)
        assert code == expected and "out of memory" in err and ("exit code 3" in err) == (expected == 2)
    assert (tmp_path / "cleaned").read_text().split() == ["once"] * 2


def test_a_flood_of_output_is_cut(call: Command, tmp_path: Path) -> None:
    assert call("run", "dlrm_tiny", "-n", 1, "--threads", 1, "--prepare", "yes | head -c 100000; echo end")[0] == 0
    (hooks,) = hooks_of(tmp_path / "results")
    assert hooks.prepare is not None and len(hooks.prepare.output) == MAX_OUTPUT
    assert hooks.prepare.output.endswith("end\n")


@pytest.mark.slow
def test_what_happens_is_appended_line_by_line(call: Command, tmp_path: Path) -> None:
    words = ("run", "dlrm_tiny", "-n", 2, "--threads", 1, "--log-to", "log.jsonl", "--prepare", "true")
    assert call(*words)[0] == 0
    events = events_of(tmp_path / "log.jsonl")
    validator = jsonschema.Draft202012Validator(json_schema(EventRecord))
    for event in events:
        validator.validate(event)
    names = [event["event"] for event in events]
    assert names[0] == "experiment_start" and names[-1] == "experiment_end"
    assert names.count("repetition_start") == names.count("prepare") == names.count("repetition_end") == 2
    ends = [event for event in events if event["event"] == "repetition_end"]
    assert [event["repetition"] for event in ends] == [0, 1]
    assert all(event["benchmark"] == "dlrm_tiny" and event["values"]["duration_s"] >= 0 for event in ends)
    assert call(*words)[0] == 0
    assert events_of(tmp_path / "log.jsonl")[: len(events)] == events


def test_a_log_that_cannot_be_written_stops_before_the_first_run(
    call: Command, workers: FastWorkers, tmp_path: Path
) -> None:
    code, _, err = call("run", "dlrm_tiny", "-n", 1, "--threads", 1, "--log-to", tmp_path)
    assert code == 2 and "--log-to" in err and workers.launches == []


def test_a_pipe_without_a_reader_is_not_waited_for(call: Command, workers: FastWorkers, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    code, _, err = call("run", "dlrm_tiny", "-n", 1, "--threads", 1, "--log-to", "pipe")
    assert code == 2 and "--log-to pipe" in err and workers.launches == []


def test_a_log_that_fails_later_costs_no_run(call: Command, tmp_path: Path) -> None:
    code, _, err = call("run", "dlrm_tiny", "-n", 1, "--threads", 1, "--log-to", "/dev/full")
    assert code == 0 and err.count("warning: --log-to /dev/full") == 1


class RecordedMLflow(ModuleType):
    """What the page's lines ask of mlflow, which refuses a second active run, and opens one for a metric of none."""

    def __init__(self) -> None:
        super().__init__("mlflow")
        self.calls: list[tuple[str, Any]] = []
        self._name: str | None = None

    def active_run(self) -> str | None:
        return self._name

    def start_run(self, run_name: str) -> None:
        assert self._name is None, f"Run {self._name} is already active"
        self._name = run_name
        self.calls.append(("start", run_name))

    def log_metric(self, key: str, value: float, timestamp: int) -> None:
        self._name = self._name or "one of its own"
        self.calls.append((key, value))

    def end_run(self, status: str) -> None:
        self._name = None
        self.calls.append(("end", status))


@pytest.fixture
def fed(call: Command, workers: FastWorkers, tmp_path: Path) -> Path:
    """A folder with the page's lines, and with what two runs with commands around them appended."""
    (tmp_path / "feed.py").write_text(re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)[0])
    around = ("--prepare", "true", "--cleanup", "true", "--log-to", "log.jsonl")
    assert call("run", "dlrm_tiny", "-n", 2, "--threads", 1, *around)[0] == 0
    return tmp_path


def test_the_lines_of_the_page_feed_mlflow(fed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = RecordedMLflow()
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)
    monkeypatch.setattr(sys, "stdin", io.StringIO((fed / "log.jsonl").read_text()))
    assert {event["event"] for event in events_of(fed / "log.jsonl")} >= {"prepare", "cleanup", "repetition_end"}
    runpy.run_path(str(fed / "feed.py"))
    assert [name for name, _ in mlflow.calls if name in ("start", "end")] == ["start", "end"] * 2
    assert len([name for name, _ in mlflow.calls if name == "repetition_end.duration_s"]) == 2
    assert len([name for name, _ in mlflow.calls if name == "prepare.exit_code"]) == 2
    assert mlflow.calls[-1] == ("end", "FINISHED")


@pytest.mark.slow
def test_the_lines_of_the_page_feed_the_mlflow_that_is_installed(fed: Path) -> None:
    pytest.importorskip("mlflow", reason="mlflow-skinny is not installed")
    where = {"MLFLOW_TRACKING_URI": (fed / "runs").as_uri(), "MLFLOW_ALLOW_FILE_STORE": "true"}
    variables = {**os.environ, **where}
    with (fed / "log.jsonl").open() as events:
        done = subprocess.run(
            [sys.executable, "feed.py"], stdin=events, cwd=fed, env=variables, capture_output=True, text=True,
            timeout=HANG_S, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    statuses = [path.read_text() for path in fed.glob("runs/*/*/meta.yaml")]
    assert len(statuses) == 2 and all("status: 3" in text for text in statuses)
    assert len([*fed.glob("runs/*/*/metrics/repetition_end.duration_s")]) == 2
