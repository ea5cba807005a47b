"""The environment check around an experiment: what disturbs its measurements is said, or stops it."""

from collections.abc import Iterable
from pathlib import Path

from harness.foundation.errors import ExitCode, HarnessError
from harness.system.preflight import run_checks
from rules.records.run_set import PreflightCheck, RunSetRecord


def describe_warnings(checks: Iterable[PreflightCheck]) -> list[str]:
    """Say in a sentence each what the environment check warns of."""
    return [f"{check.name}: {check.value}. {check.why}" for check in checks if check.status == "warning"]


def check_again(folder: Path, record: RunSetRecord) -> tuple[PreflightCheck, ...]:
    """Check the environment before a set goes on. HarnessError (exit 6) where it warns of one of --strict-env."""
    data_dir = Path(record.dataset.dir)
    if "--strict-env" in record.command.split():
        refuse_disturbed_environment(data_dir, folder)
    return run_checks(data_dir, folder)


def refuse_disturbed_environment(data_root: Path | None, output: Path) -> None:
    """Raise HarnessError (exit 6) where the environment check warns, for --strict-env."""
    lines = "\n".join(f"  {text}" for text in describe_warnings(run_checks(data_root, output)))
    if lines:
        raise HarnessError(f"the environment check warns and --strict-env stops here:\n{lines}", ExitCode.ENVIRONMENT)
