"""dlrmv4 has no implementation here: it is shown, judged, scored and compared, and cannot be run."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from log_builder import make_runs, write_set
from seams import TRAINING, training

from rules.benchmarks.loader import load_benchmark

CLI = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(command: CLI, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> CLI:
    """The command line in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return command


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "dlrmv4"),
        ("plan", "dlrmv4"),
        ("data", "generate", "dlrmv4"),
        *(training(verb, "dlrmv4") for verb in TRAINING),
    ],
)
def test_it_cannot_be_run_and_one_message_says_why(command: CLI, arguments: tuple[str, ...], tmp_path: Path) -> None:
    code, out, err = command(*arguments)
    assert (code, out) == (2, "")
    assert "no implementation" in err and "hstu" in err and "checked, scored, compared" in err
    assert "Train dlrmv4_small here." in err
    assert len(err.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_its_definition_is_shown_as_it_is(command: CLI) -> None:
    content = json.loads(command("show", "dlrmv4", "--format", "json")[1])
    assert content["has_implementation"] is False
    assert content["cadence"]["steps_between_evals"] == 280
    assert content["closed"]["opt_sparse_base_learning_rate"] == "the value of opt_base_learning_rate"
    assert "in proportion to it" in content["closed"]["opt_base_learning_rate"]
    assert "known once the data" not in command("show", "dlrmv4")[1]


def test_its_results_are_judged_scored_and_compared(command: CLI, tmp_path: Path) -> None:
    v4 = load_benchmark("dlrmv4")
    for name, num_evals in (("base", 6), ("new", 7)):
        runs = make_runs(v4, ours=False, num_evals=num_evals)
        write_set(tmp_path / name / "Example", v4, runs, ours=False)
    code, out, _ = command("check", "base/Example/results", "--no-second-opinion")
    assert code == 0 and out.startswith("VALID") and "MLPerf Training 6.1" in out
    code, out, _ = command("score", "base", "--format", "json")
    (score,) = json.loads(out)["scores"]
    assert score["rcp_factor"] > 1 and "samples" in score["rcp_reason"]
    assert command("compare", "base", "new")[0] == 0
