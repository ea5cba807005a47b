"""dlrmv4_small from the command line: what is wrong is one line and an exit code; what is shown follows from it."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tomli_w
from sequence_builder import small_tables

pytestmark = pytest.mark.numeric

CLI = Callable[..., tuple[int, str, str]]


@pytest.fixture
def definition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "few.toml"
    path.write_text(tomli_w.dumps(small_tables()))
    return path


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("model.max_sequence_length=4", "model.max_sequence_length is 4, expected more than"),
        ("model.num_head=4", "unknown key model.num_head. Did you mean 'num_heads'?"),
        ("model.num_layers=0", "model.num_layers is 0, expected a whole number of at least 1"),
        ("train.opt_adam_beta_3=0.9", "unknown key 'train.opt_adam_beta_3'. Did you mean 'opt_adam_beta_"),
        ("data.parameters.decai=0.5", "unknown key data.parameters.decai. Did you mean 'decay'?"),
    ],
)
def test_a_wrong_definition_is_one_line_and_exit_code_2(
    setting: str, message: str, definition: Path, command: CLI
) -> None:
    code, out, err = command("run", definition, "--name", "other", "--set", setting)
    assert (code, out, len(err.splitlines())) == (2, "", 1), err
    assert message in err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("array", "row", "value", "message"),
    [
        ("dense", 700, 3.0, "train: sample 700: its time 3 is in window 0, after one of window 2"),
    ],
)
def test_a_damaged_log_is_one_line_and_exit_code_8(
    array: str, row: int, value: object, message: str, definition: Path, command: CLI
) -> None:
    assert command("data", "generate", definition)[0] == 0
    (manifest,) = Path("data").glob("*/manifest.json")
    path = manifest.with_name(f"train_{array}.npy")
    rows = np.load(path, mmap_mode="r+")
    rows[row] = value
    rows.flush()
    content = json.loads(manifest.read_text())
    content["files"][path.name]["mtime_ns"] = path.stat().st_mtime_ns  # as if it had been made so
    manifest.write_text(json.dumps(content))
    code, _, err = command("run", definition, "--throughput", "3", "--threads", "1")
    assert code == 8, err
    assert any(message in line for line in err.splitlines()), err


def test_show_and_plan_know_it_through_its_spec(command: CLI) -> None:
    content = json.loads(command("show", "dlrmv4_small", "--format", "json")[1])
    assert content["model"]["max_sequence_length"] == 48
    assert content["train"]["opt_sparse_name"] == "RowWiseAdagrad"
    assert content["size"]["num_parameters"] == 1_300_449
    code, out, _ = command("plan", "dlrmv4_small")
    assert code == 0 and "No problem found." in out


def test_an_optimizer_that_it_does_not_train_with_is_refused(definition: Path, command: CLI) -> None:
    tables = small_tables()
    tables["train"] = {"global_batch_size": 128, "opt_name": "sgd", "opt_base_learning_rate": 0.1}
    tables["closed"] = {"opt_name": "sgd"}
    definition.write_text(tomli_w.dumps(tables))
    code, _, err = command("plan", definition)
    assert code == 2 and "train.opt_name is 'sgd', which this model does not train with. Known: Adam." in err
