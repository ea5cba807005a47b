"""What a shell completes: the values of options, read from what exists, without importing what computes."""

from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from report_builder import write_run_set
from seams import TRAINING, find_seams

from harness.cli import cli
from rules.benchmarks.loader import shipped_names


def completed(*arguments: str, incomplete: str) -> list[str]:
    shell = ShellComplete(cli, {}, "dlrmbench", "_DLRMBENCH_COMPLETE")
    return [item.value for item in shell.get_completions(list(arguments), incomplete)]


@pytest.mark.parametrize(
    ("arguments", "incomplete", "values"),
    [
        (("run", "--implementation"), "o", ["optimized"]),
        (("run", "--implementation"), "x", []),
        (("sweep", "--sharding"), "table_", ["table_wise", "table_row_wise", "table_column_wise"]),
        (("run", "--comm"), "fp1", ["fp16"]),
        (("plan", "--grad-comm"), "p", ["powersgd:"]),
        (("run", "--division"), "c", ["closed"]),
        (("compare", "a", "b", "--fail-on"), "r", ["regression"]),
        (("run",), "dlrm_t", ["dlrm_tiny"]),
        (("run",), "dlrmv", ["dlrmv4_small"]),  # of the official one logs are judged alone
        (("show",), "dlrmv", ["dlrmv4", "dlrmv4_small"]),
        (("show",), "dlrm_dc", ["dlrm_dcnv2", "dlrm_dcnv2_small"]),
        (("schema",), "run", ["run_set", "run", "run_document"]),
        ((), "pro", ["profile"]),
        (("run", "--set"), "train.gl", ["train.global_batch_size="]),
        (("run", "--set"), "submission", []),
        (("sweep", "--axis"), "runtime.th", ["runtime.threads="]),
        (("init", "--set"), "benchmark.na", []),
        (("show",), "dlrm_tiny@", ["dlrm_tiny@2"]),
        (("show",), "nothing@", []),
        (("run",), "dlrm_tiny@", ["dlrm_tiny@2"]),
        (("check", "--explain"), "al", ["all"]),
        (("check", "--explain"), "QU101", ["QU101"]),
    ],
)
def test_values_are_completed(arguments: tuple[str, ...], incomplete: str, values: list[str]) -> None:
    assert completed(*arguments, incomplete=incomplete) == values


@pytest.mark.parametrize(("command", "asked"), find_seams("COMPLETED").items())
def test_values_of_extensions_are_completed(command: str, asked: tuple[str, list[str]]) -> None:
    incomplete, values = asked
    assert completed(*command.split(), incomplete=incomplete) == values


@pytest.mark.parametrize("verb", ["run", "sweep", "plan", "profile", *TRAINING])
def test_what_can_be_run_is_completed(verb: str) -> None:
    runnable = [name for name in shipped_names() if name != "dlrmv4"]
    assert completed(verb, incomplete="") == runnable


def test_sets_of_the_results_folder_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_run_set(tmp_path / "dlrm_tiny-base-20260101T000000Z")
    for moment in ("20260102T000000Z", "20260103T000000Z"):
        write_run_set(tmp_path / f"dlrm_tiny-twice-{moment}")
    (tmp_path / "notes").mkdir()
    monkeypatch.setenv("DLRMBENCH_OUTPUT", str(tmp_path))
    folders = [f"dlrm_tiny-{name}" for name in ("base-20260101T000000Z", "twice-20260102T000000Z")]
    folders.append("dlrm_tiny-twice-20260103T000000Z")
    assert completed("compare", incomplete="dlrm") == folders
    assert completed("resume", incomplete="b") == ["base"]
    assert completed("report", incomplete="") == ["base", *folders, "latest"]  # `twice` would be an error
    assert completed("score", incomplete="n") == ["n"]  # left to the shell, which completes files
