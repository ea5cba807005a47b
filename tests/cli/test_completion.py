"""What a shell completes: the values of options, read from what exists, without importing what computes."""

from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from report_builder import write_run_set

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
        (("show",), "dlrm_dc", ["dlrm_dcnv2", "dlrm_dcnv2_small"]),
        ((), "pl", ["plan"]),
    ],
)
def test_values_are_completed(arguments: tuple[str, ...], incomplete: str, values: list[str]) -> None:
    assert completed(*arguments, incomplete=incomplete) == values


def test_every_shipped_benchmark_is_completed() -> None:
    assert completed("calibrate", incomplete="") == list(shipped_names())


def test_sets_of_the_results_folder_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_run_set(tmp_path / "dlrm_tiny-base-20260101T000000Z")
    (tmp_path / "notes").mkdir()
    monkeypatch.setenv("DLRMBENCH_OUTPUT", str(tmp_path))
    assert completed("compare", incomplete="dlrm") == ["dlrm_tiny-base-20260101T000000Z"]
    assert completed("report", incomplete="") == ["dlrm_tiny-base-20260101T000000Z", "latest"]
    assert completed("score", incomplete="n") == ["n"]  # left to the shell, which completes files
