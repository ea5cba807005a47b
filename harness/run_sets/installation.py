"""Describe an installation of dlrmbench: this process's own, or that of another Python interpreter, which answers a
query.

`run --beside --python` measures with two installations, one for each of two configurations. The parent process writes
both run sets, starts all workers, judges and compares. The workers of one configuration run in the other
installation, with its code and its torch, and write its records. The two installations share only versioned formats:
the query and answer here, the job's file (`harness.measure.job`), records (`rules.records`) and the log. A dlrmbench
without this module is too old to be the other installation.

The other interpreter runs this module, as `python -P -m harness.run_sets.installation`, with the query as JSON on
standard input.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec

from harness.config.catalog import parse_recorded
from harness.foundation.errors import ExitCode, HarnessError, end_process
from harness.launch.process import Interpreter
from harness.measure.job import JOB_VERSION, explain_and_end
from harness.measure.refusals import refuse_untrainable
from harness.system.code import code_sha256, other_path_variables
from harness.system.description import describe_system, make_system_slug
from harness.system.software import WORKER_VARIABLES, environment
from harness.system.submission import SubmissionValue
from rules.benchmarks.loader import Benchmark, parse_benchmark
from rules.records.codec import VERSION, DamageError, Record, Sha256, convert
from rules.records.run_set import DescribedSystem

_MODULE = "harness.run_sets.installation"


class InstallationQuery(Record, frozen=True, kw_only=True):
    """Query to another installation of dlrmbench, about the resolved benchmark definition that it is to run and the
    submission fields that the user gave."""

    tables: dict[str, Any]
    definition_path: str
    submission: dict[str, dict[str, str]]


class InstallationRecord(Record, frozen=True, kw_only=True):
    """Answer of an installation of dlrmbench to a query: its code, environment and system, and the digest that it
    computes for the definition."""

    harness_version: str
    code_sha256: Sha256
    environment: dict[str, Any]
    system: DescribedSystem
    variables: dict[str, str]
    """Default environment variables of the installation's worker processes; the user's own take precedence."""
    definition_sha256: Sha256
    job_version: int
    record_version: int
    chooses: bool = False
    """True if the installation can choose threads and kernels by timing; an older one cannot, and only takes a number
    of threads."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Installation:
    """Another interpreter's installation of dlrmbench, with the installation's answer to a query."""

    python: str
    about: InstallationRecord

    @property
    def interpreter(self) -> Interpreter:
        return Interpreter(python=self.python, variables=self.about.variables)


def describe_here(benchmark: Benchmark, device: str, given: Mapping[str, SubmissionValue]) -> InstallationRecord:
    """Return a description of this process's dlrmbench installation and of the system as this process detects it."""
    system = describe_system(given, device=device)
    return InstallationRecord(
        harness_version=version("dlrmbench"),
        code_sha256=code_sha256(),
        environment=environment(),
        system=DescribedSystem(
            name=make_system_slug(system), fields=dict(system.fields), provenance=dict(system.provenance)
        ),
        variables=dict(WORKER_VARIABLES),
        definition_sha256=benchmark.definition_sha256,
        job_version=JOB_VERSION,
        record_version=VERSION,
        chooses=True,
    )


def find_interpreter(python: Path) -> str:
    """Return the full path of a Python interpreter. Raises HarnessError (exit 2) where there is no such program.

    A link is not resolved: an environment's interpreter is identified by its path.
    """
    found = shutil.which(str(python))
    if found is None:
        inside = python / "bin" / "python"
        hint = f"its interpreter is {inside}" if inside.exists() else "expected the interpreter of an environment"
        raise HarnessError(f"--python {python}: no such program; {hint}. Give one such as --python OTHER/bin/python.")
    return str(Path(found).absolute())


def ask_installation(
    python: Path, benchmark: Benchmark, tables: Mapping[str, Any], given: Mapping[str, SubmissionValue]
) -> Installation:
    """Ask the dlrmbench of another Python interpreter whether it can run a benchmark definition. Return that
    installation with its answer, which has its code, environment and system.

    Raises HarnessError with exit 2 if the interpreter has no dlrmbench, or an incompatible version of it. If that
    dlrmbench refuses the definition, raises HarnessError with the message and exit code of the refusal.
    """
    path = find_interpreter(python)
    submission = {field: asdict(entry) for field, entry in given.items()}
    question = InstallationQuery(tables=dict(tables), definition_path=str(benchmark.path), submission=submission)
    done = subprocess.run(
        [path, "-P", "-m", _MODULE],
        input=json.dumps(msgspec.to_builtins(question)),
        capture_output=True,
        text=True,
        env=other_path_variables(os.environ),
        check=False,
    )
    if done.returncode != 0:
        _refuse(path, done)
    try:
        about = convert(json.loads(done.stdout.splitlines()[-1]), InstallationRecord)
    except (ValueError, IndexError) as error:
        what = f"{error}" if isinstance(error, DamageError) else "no answer that can be read"
        raise HarnessError(f"{path}: its dlrmbench is of another version than this one: {what}. {_REMEDY}") from None
    _refuse_other_versions(path, about)
    if about.definition_sha256 != benchmark.definition_sha256:
        raise HarnessError(
            f"{path}: to its dlrmbench {about.harness_version} the definition of {benchmark.name} has the digest "
            f"{about.definition_sha256[:12]}, to this one {benchmark.definition_sha256[:12]}: their logs would be of "
            f"two benchmarks. {_REMEDY}"
        )
    return Installation(python=path, about=about)


_REMEDY = "Install a version there that is nearer to this one."


def _refuse_other_versions(path: str, about: InstallationRecord) -> None:
    for what, theirs, here in (
        ("does jobs of version", about.job_version, JOB_VERSION),
        ("writes records of version", about.record_version, VERSION),
    ):
        if theirs != here:
            raise HarnessError(
                f"{path}: its dlrmbench {about.harness_version} {what} {theirs}, this one understands {here}. "
                f"{_REMEDY}"
            )


def _refuse(path: str, done: "subprocess.CompletedProcess[str]") -> None:
    """Raise HarnessError with the reason why another interpreter's dlrmbench did not answer the query."""
    words = done.stderr.strip().splitlines()
    last = words[-1] if words else f"it ended with exit code {done.returncode} and no message"
    if "No module named 'harness'" in last:
        raise HarnessError(f"{path}: has no dlrmbench. Install there the version that is to run SET's configuration.")
    if "No module named harness." in last or "No module named 'harness." in last:
        raise HarnessError(
            f"{path}: its dlrmbench is too old to be driven by this one: it has no {_MODULE}. Install a later "
            "version there, or measure each with its own 'dlrmbench run' and compare the two sets."
        )
    code = ExitCode(done.returncode) if done.returncode in set(ExitCode) - {1} else ExitCode.USAGE
    raise HarnessError(f"{path}: its dlrmbench cannot run this: {last}", code)


def answer(text: str) -> str:
    """Return the answer of this installation of dlrmbench to a query from another one, as JSON: what it would run for
    a benchmark definition, on this system. Raises the errors of resolving a configuration if the definition cannot
    run here."""
    question = convert(json.loads(text), InstallationQuery)
    benchmark = parse_benchmark(question.tables, Path(question.definition_path))
    workload = parse_recorded(benchmark)
    refuse_untrainable(workload)
    given = {field: SubmissionValue(**entry) for field, entry in question.submission.items()}
    return json.dumps(msgspec.to_builtins(describe_here(benchmark, workload.runtime.device, given)))


def main() -> int:
    """Answer another installation's query, read from standard input, in one line on standard output; return the exit
    code, which tells the reason where the query cannot be answered."""
    return explain_and_end(lambda: sys.stdout.write(answer(sys.stdin.read()) + "\n"))


if __name__ == "__main__":
    end_process(main())
