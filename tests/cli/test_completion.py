"""What a shell completes: the values of options, read from what exists, without importing what computes."""

import pytest
from click.shell_completion import ShellComplete

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
