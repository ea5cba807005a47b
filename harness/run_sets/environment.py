"""Check the environment before a measurement: warn of noise, or refuse to measure; record the check and the load.

Every measurement uses this module: for the check before it, with warnings on standard error, and for the load while
each process measures.
"""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import msgspec

from harness.foundation.errors import ExitCode, HarnessError
from harness.foundation.status_line import folded
from harness.system.load import LoadWatch
from harness.system.preflight import run_checks
from rules.logs.text import printable
from rules.records.calibration import CalibrationRecord
from rules.records.load import LoadRecord
from rules.records.run_set import PreflightCheck, RunSetRecord
from rules.records.study import StudyRecord

_DOCTOR = "'dlrmbench doctor'"
T = TypeVar("T", StudyRecord, CalibrationRecord)


@dataclass(frozen=True, kw_only=True, slots=True)
class Environment:
    """Environment check and system load of a measurement that makes no run set, for its record. (A run set has the
    check in run_set.json, and the load in each process's record.)"""

    preflight: tuple[PreflightCheck, ...]
    loads: list[LoadRecord] = field(default_factory=list)

    @classmethod
    def check(cls, data: Path | None = None, output: Path | None = None) -> "Environment":
        """Check the environment and print the warnings on standard error; return the results. `data` and `output` are
        the folders of datasets and results that the measurement uses."""
        checks = run_checks(data, output)
        warn(checks)
        return cls(preflight=checks)

    @contextmanager
    def measuring(self) -> Iterator[LoadWatch]:
        """Record the system's load while the caller's block measures, unless the block fails."""
        watch = LoadWatch()
        yield watch
        self.loads.append(watch.end())

    def put_on(self, record: T) -> T:
        """Return a measurement's record with the results of the environment check, and the loads of the system, added
        to it."""
        return msgspec.structs.replace(record, preflight=self.preflight, loads=tuple(self.loads))


def warn(checks: Iterable[PreflightCheck]) -> None:
    """Print the environment check's warnings on standard error, even with --quiet."""
    for text in describe_warnings(checks):
        sys.stderr.write(f"{folded(f'warning: {printable(text)} See {_DOCTOR}.', sys.stderr)}\n")
    sys.stderr.flush()


def describe_warnings(checks: Iterable[PreflightCheck]) -> list[str]:
    """Return each warning of the environment check (noise, unsupported libraries, a full disk, …) as sentences."""
    return [f"{check.name}: {check.value}. {check.why}" for check in checks if check.status == "warning"]


def check_again(folder: Path, record: RunSetRecord) -> tuple[PreflightCheck, ...]:
    """Return the results of an environment check before a run set is resumed. Raises HarnessError (exit 6) if the
    check warns and the run set was begun with --strict-env."""
    data_dir = Path(record.dataset.dir)
    if "--strict-env" in record.command.split():
        refuse_disturbed_environment(data_dir, folder)
    return run_checks(data_dir, folder)


def refuse_disturbed_environment(data_root: Path | None, output: Path) -> None:
    """Raise HarnessError (exit 6) if the environment check warns of anything; called when --strict-env is given."""
    lines = "\n".join(f"  {text}" for text in describe_warnings(run_checks(data_root, output)))
    if lines:
        raise HarnessError(f"the environment check warns and --strict-env stops here:\n{lines}", ExitCode.ENVIRONMENT)
