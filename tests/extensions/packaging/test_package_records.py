"""A package keeps the records of its runs, which the rules hold its logs against, and on request their weights."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from package_builder import SMALL, TINY, make_set, package, refused, run_set_record
from run_record_cases import write_recorded
from watched_cases import write_watched_set

from harness.extensions.packaging import build
from harness.extensions.packaging.build import package_blocks
from harness.extensions.packaging.tree import SUMS_FILE
from harness.foundation.errors import ExitCode, HarnessError
from harness.measure.weights import keep_weights, read_weights
from harness.run_sets.names import find_weights
from reports.render.markdown import render_markdown
from rules.judge.checker import check_paths
from rules.records.chain import LAST_FILE

HERE = "Example/benchmarks/dlrm_tiny/example"
ABOUT = {
    "benchmark": "dlrm_tiny", "benchmark_version": 2, "definition_sha256": TINY.definition_sha256,
    "dataset_sha256": None, "implementation": "reference", "run_index": 0, "seed": 1, "status": "success",
    "samples_count": 512, "quality": 0.75, "log_sha256": "1" * 64,
}  # fmt: skip


def recorded(root: Path) -> Path:
    """A set with the records of its runs."""
    write_recorded(root)
    (root / "extra" / "run_set.json").write_text(json.dumps(run_set_record()))
    return root


@pytest.mark.slow
def test_the_chain_of_a_sets_runs_is_packaged_whole(tmp_path: Path) -> None:
    """What is taken out of the package is missed there, too."""
    members = {name: value for name, value in run_set_record().items() if name not in ("created_utc", "system")}
    root = write_watched_set(tmp_path / "set", system=run_set_record()["system"], **members)
    assert package([root], tmp_path / "out").verdict.outcome == "valid"
    found = codes(tmp_path / "out")
    assert not {"RS121", "RS131", "RS132"} & {code for code, _ in found}, found
    (tmp_path / "out" / HERE / "extra" / LAST_FILE).unlink()
    assert ("RS131", "error") in codes(tmp_path / "out")


def with_weights(root: Path, *runs: int) -> Path:
    for index in runs:
        (root / "extra" / f"run_{index}").mkdir(exist_ok=True)
        tensors = {"top.0.weight": torch.arange(6.0).reshape(2, 3) + index, "bias": torch.ones(3)}
        kept = keep_weights(root / "extra" / f"run_{index}", tensors, {**ABOUT, "run_index": index})
        assert kept.error is None
    return root


def codes(path: Path) -> set[tuple[str, str]]:
    """Rule and severity of all findings on a package and its sets."""
    (verdict,) = check_paths([path], None, False, None)
    return {(each.code, each.severity) for part in (verdict, *verdict.parts) for each in part.findings}


@pytest.mark.slow
def test_a_package_of_ours_is_not_said_to_lack_records(tmp_path: Path) -> None:
    made = package([recorded(tmp_path / "set")], tmp_path / "out")
    assert made.verdict.outcome == "valid"
    found = codes(tmp_path / "out")
    assert not {"RS119", "RS116", "RS117", "RS118"} & {code for code, _ in found}, found
    sums = (tmp_path / "out" / SUMS_FILE).read_text()
    for name in ("run_set.json", "definition.toml", "run_0/attempt_1/run.json"):
        assert f"  {HERE}/extra/{name}\n" in sums
    assert "attempt_2" not in sums  # interrupted


@pytest.mark.slow
@pytest.mark.parametrize("what", ["log", "record"])
def test_the_rules_hold_a_packages_logs_against_its_records(what: str, tmp_path: Path) -> None:
    package([recorded(tmp_path / "set")], tmp_path / "out")
    if what == "log":
        log = tmp_path / "out" / "Example/results/example/dlrm_tiny/result_0.txt"
        log.write_text(log.read_text().replace('"key": "seed", "value": ', '"key": "seed", "value": 1'))
    else:
        place = tmp_path / "out" / HERE / "extra/run_0/attempt_1/run.json"
        place.write_text(json.dumps(json.loads(place.read_text()) | {"seed": 4711}))
    assert ("RS116", "error") in codes(tmp_path / "out")


@pytest.mark.slow
def test_a_package_without_its_records_is_warned_of_as_before(tmp_path: Path) -> None:
    import shutil

    package([recorded(tmp_path / "set")], tmp_path / "out")
    shutil.rmtree(tmp_path / "out" / HERE / "extra")
    assert ("RS119", "warning") in codes(tmp_path / "out")


@pytest.mark.slow
def test_weights_are_packaged_on_request_and_read_back_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = with_weights(recorded(tmp_path / "set"), 0, 3)
    plain = package([source], tmp_path / "plain")
    assert plain.weights.num_runs == 0 and not list((tmp_path / "plain").rglob("*.npy"))
    assert any("--weights packages" in item.reason for item in plain.left_out)
    made = package([source], tmp_path / "out", weights=True)
    assert made.weights.num_runs == 2 and made.weights.num_bytes == 2 * (128 + 24 + 128 + 12)
    said = render_markdown(package_blocks(made))
    assert "Weights of 2 runs are in it, 584 B" in said and "serves them" in said
    monkeypatch.setattr(build, "is_model", lambda name: False)
    said = render_markdown(package_blocks(made))
    assert "Weights of 2 runs are in it, 584 B" in said and "serves" not in said
    sums = (tmp_path / "out" / SUMS_FILE).read_text()
    assert sums.count(".npy") == 4 and sums.count("weights/manifest.json") == 2
    moved = (tmp_path / "out").rename(tmp_path / "unpacked")
    for text, index in ((str(moved), 0), (f"{moved}:3", 3), (f"{moved / HERE}:3", 3)):
        found = read_weights(find_weights(text), TINY.definition_sha256)
        assert torch.equal(found.tensors["top.0.weight"], torch.arange(6.0).reshape(2, 3) + index)


@pytest.mark.slow
def test_weights_that_are_not_there_or_damaged_are_not_packaged(tmp_path: Path) -> None:
    error = refused([recorded(tmp_path / "none")], tmp_path / "out", weights=True)
    assert error.exit_code == ExitCode.INPUT and "--keep-weights" in str(error)
    source = with_weights(recorded(tmp_path / "set"), 0)
    file = source / "extra/run_0/weights/bias.npy"
    whole = file.read_bytes()
    file.write_bytes(whole[:-1] + b"!")
    error = refused([source], tmp_path / "out", weights=True)
    assert error.exit_code == ExitCode.INPUT and "bias.npy" in str(error) and "sha256" in str(error)
    file.unlink()
    file.symlink_to("/etc/passwd")
    error = refused([source], tmp_path / "out", weights=True)
    assert error.exit_code == ExitCode.INPUT and "no regular file" in str(error)


@pytest.mark.slow
def test_of_a_package_with_weights_of_several_sets_one_is_given(tmp_path: Path) -> None:
    first, second = with_weights(make_set(tmp_path / "a"), 0), with_weights(make_set(tmp_path / "b", SMALL), 0)
    package([first, second], tmp_path / "out", weights=True)
    with pytest.raises(HarnessError, match="weights of several sets") as caught:
        find_weights(str(tmp_path / "out"))
    assert caught.value.exit_code == ExitCode.USAGE
    assert find_weights(str(tmp_path / "out" / HERE)).name == "weights"


def test_without_room_nothing_is_packaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source: Any = with_weights(recorded(tmp_path / "set"), 0)
    monkeypatch.setattr("harness.extensions.packaging.build.free_disk_bytes", lambda path: 100)
    error = refused([source], tmp_path / "out", weights=True)
    assert error.exit_code == ExitCode.RESOURCES and "292 B" in str(error)
