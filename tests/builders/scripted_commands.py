"""The command line in this process, with workers that follow a script: no training, no waiting, the same every time.

`seams` is the one place that knows where the product starts a worker, asks what time it is and what system this is.
Each is named where it is defined, and replaced in every module that has imported it.
"""

import importlib
import io
import os
import pkgutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import patch

from scripted_workers import CODE, OTHER_CODE, Moment, ScriptedWorkers
from seams import find_seams

import harness
from harness.cli import main
from harness.run_sets.installation import Installation, InstallationRecord
from harness.system.description import SystemDescription
from harness.system.load import LoadReading
from harness.system.resources import Resources
from rules.benchmarks.loader import Benchmark
from rules.extensions import load_place
from rules.records.codec import convert
from rules.records.run_set import PreflightCheck
from rules.records.system import SYSTEM_FIELDS

SYSTEM = "here"
FRAMEWORK = "torch 2.0"
MANY = 1 << 40
MOST_READS = 20_000
"""Of a scripted clock while it stands still; a set of a hundred runs reads it some hundred times."""


def describe_scripted_system(given: Mapping[str, Any], **options: Any) -> SystemDescription:
    """A system of which nothing is looked at; what was given wins."""
    said = {name: entry if isinstance(entry, str) else entry.value for name, entry in given.items()}
    known = {
        "submitter": "unspecified",
        "status": "Research, Development, or Internal (RDI)",
        "system_name": SYSTEM,
        "framework": FRAMEWORK,
    }
    fields = {name: said.get(name, known.get(name, "")) for name in SYSTEM_FIELDS}
    provenance = {"system_name": "given (option)" if "system_name" in said else "given (scripted)"}
    return SystemDescription(fields=fields, provenance=provenance)


def scripted_environment(*_: object) -> dict[str, Any]:
    return {"python": "3.12.0", "packages": {"torch": "2.0.0"}, "variables": {}}


def checks(*_: object, **__: object) -> tuple[PreflightCheck, ...]:
    """What the environment check finds: something that is well, and something to warn of."""
    return (
        PreflightCheck(name="cores", value="2", status="ok", why="All are there.", remedy=""),
        PreflightCheck(name="governor", value="powersave", status="warning", why="It is slow.", remedy="Change it."),
    )


def resources(*_: object) -> Resources:
    return Resources(
        num_cores=2,
        num_logical_cpus=2,
        num_affinity_cpus=2,
        quota_cores=None,
        physical_memory_bytes=MANY,
        memory_limit_bytes=None,
        available_memory_bytes=MANY,
    )


def answering_installation(
    python: Path, benchmark: Benchmark, tables: Mapping[str, Any], given: Mapping[str, Any]
) -> Installation:
    """Another interpreter, which answers with other code on the same system."""
    system = describe_scripted_system(given)
    about = {
        "harness_version": "0.0.9",
        "code_sha256": OTHER_CODE,
        "environment": scripted_environment(),
        "system": {"name": SYSTEM, "fields": dict(system.fields), "provenance": dict(system.provenance)},
        "variables": {},
        "definition_sha256": benchmark.definition_sha256,
        "job_version": 1,
        "record_version": 1,
        "chooses": True,
    }
    return Installation(python=f"/other/{python.name}", about=convert(about, InstallationRecord))


class InlinePool:
    """A pool of processes that does in this one what it is given, at once."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def __enter__(self) -> "InlinePool":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def submit(self, work: Callable[..., Any], *values: Any) -> "Future[Any]":
        future: Future[Any] = Future()
        future.set_result(work(*values))
        return future

    def shutdown(self, **_: object) -> None:
        pass


def _code_record() -> Any:
    from rules.records.measure import CodeRecord

    return CodeRecord(sha256=CODE, commit=None, commit_is_dirty=None)


@cache
def stand_ins_of_extensions() -> Mapping[str, Callable[..., Any]]:
    return {replaced: load_place(stand_in) for replaced, stand_in in find_seams("STAND_INS").items()}


def seams(workers: ScriptedWorkers) -> dict[str, Callable[..., Any]]:
    """What is replaced, by where it is defined. All that a move of code within the product changes here is a name."""
    return {
        "harness.launch.process:launch_worker": workers,
        "concurrent.futures:ProcessPoolExecutor": InlinePool,
        "harness.experiment.side_by_side:ThreadPoolExecutor": InlinePool,
        "harness.planning.plan:measure_steps": lambda *_: (0.01, 0.1),
        "harness.planning.sweep:measure_start_s": lambda: 1.5,
        "harness.run_sets.installation:ask_installation": answering_installation,
        "harness.autotune.tuning:is_system_busy": lambda *_: False,
        "rules.benchmarks.seeds:draw_base_seed": lambda: 7,
        "harness.system.code:code_sha256": lambda: CODE,
        "harness.system.code:describe_code": _code_record,
        "harness.system.description:describe_system": describe_scripted_system,
        "harness.system.hardware:read_processors": lambda *_: SimpleNamespace(
            model_name="scripted processor", num_packages=1
        ),
        "harness.system.load:read_load": lambda *_: LoadReading(0.0, 2, 0.5, None, None),
        "harness.system.load:read_clock_mhz": lambda *_: None,
        "harness.system.load:read_temperature_c": lambda *_: None,
        "harness.system.preflight:run_checks": checks,
        "harness.system.resources:read_resources": resources,
        "harness.system.resources:free_disk_bytes": lambda path: MANY,
        "harness.system.resources:list_cores": lambda *_: [(0,), (1,)],
        "harness.system.software:environment": scripted_environment,
        "harness.system.software:version_of": lambda package: "2.0.0",
        "importlib.metadata:version": lambda package: "0.1.0",
        "rules.official.opinion:_installed": lambda: None,
        **stand_ins_of_extensions(),
    }


@cache
def product_modules() -> tuple[ModuleType, ...]:
    """All modules of the product that can be imported: one that is first imported later would keep a stand-in."""
    for found in pkgutil.walk_packages(harness.__path__, "harness."):
        if not found.name.endswith("__main__"):
            with suppress(ImportError):
                importlib.import_module(found.name)
    return tuple(module for name, module in sys.modules.items() if name.partition(".")[0] in ("harness", "rules"))


class _ScriptedClock:
    """A clock that scripted workers alone move on; code that waits for it without end is told so."""

    def __init__(self, moment: Moment) -> None:
        self._moment = moment
        self._read_s, self._num_reads = moment.passed_s, 0

    def read(self) -> float:
        """Return the seconds that have passed. Raises AssertionError where it stands still."""
        self._num_reads = self._num_reads + 1 if self._moment.passed_s == self._read_s else 0
        self._read_s = self._moment.passed_s
        assert self._num_reads < MOST_READS, (
            "something waits for a scripted clock that stands still: give it a stand-in"
        )
        return self._read_s


@cache
def holders_of(original: Any) -> tuple[tuple[ModuleType, str], ...]:
    """Every place of the product's modules that holds it: they are looked through once and not for every command."""
    return tuple(
        (module, name) for module in product_modules() for name, value in vars(module).items() if value is original
    )


@contextmanager
def replaced(stand_ins: Mapping[str, Any], moment: Moment) -> Iterator[None]:
    """Put stand-ins wherever the product's modules hold the originals, and take them away again."""

    class Now(datetime):
        """The scripted time of day."""

        @classmethod
        def now(cls, tz: Any = None) -> datetime:  # type: ignore[override]
            return moment.now

    originals: dict[Any, Any] = {datetime: Now}
    for place, stand_in in stand_ins.items():
        module, _, name = place.partition(":")
        originals[getattr(importlib.import_module(module), name)] = stand_in
    clock = _ScriptedClock(moment)
    originals[time] = SimpleNamespace(**{**vars(time), "monotonic": clock.read, "perf_counter": clock.read})
    kept = [
        (holder, name, original)
        for original in originals
        for holder, name in holders_of(original)
        if vars(holder).get(name) is original  # a test may have put something else there
    ]
    for holder, name, original in kept:
        setattr(holder, name, originals[original])
    try:
        yield
    finally:
        for module, name, value in kept:
            setattr(module, name, value)


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a command line ended."""

    code: int
    out: str
    err: str


def _is_read(variable: str) -> bool:
    return variable.startswith(("DLRMBENCH_", "OMP_", "GOMP_", "MKL_", "KMP_", "SLURM_"))


@contextmanager
def place(folder: Path, words: list[str], variables: Mapping[str, str]) -> Iterator[None]:
    """Work in `folder`, with an environment that says nothing but `variables`, as the command line `words`."""
    before, environ, argv = Path.cwd(), dict(os.environ), sys.argv
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    for name in [
        name for name in environ if name.startswith(("DLRMBENCH_", "OMP_", "GOMP_", "MKL_", "KMP_", "SLURM_"))
    ]:
        del os.environ[name]
    os.environ.update({"COLUMNS": "100", "NO_COLOR": "1", **variables})
    os.chdir(folder)
    sys.argv = ["dlrmbench", *words]
    try:
        yield
    finally:
        os.chdir(before)
        sys.argv = argv
        os.environ.clear()
        os.environ.update(environ)
        for number, handler in handlers.items():
            signal.signal(number, handler)


@contextmanager
def no_disk_to_wait_for() -> Iterator[None]:
    """Let nothing be synced: no power cut is scripted, and waiting for the disk took a sixth of the time."""
    with patch("os.fsync", lambda descriptor: None):
        yield


@contextmanager
def acting(folder: Path, words: list[str], variables: Mapping[str, str], workers: ScriptedWorkers) -> Iterator[None]:
    """Be that command line in that folder, with these workers."""
    with place(folder, words, variables), replaced(seams(workers), workers.moment), no_disk_to_wait_for():
        yield


def run_scripted_command(
    words: list[str], folder: Path, workers: ScriptedWorkers, variables: Mapping[str, str] | None = None
) -> Ended:
    """Run one command line in `folder` with these workers."""
    out, err = io.StringIO(), io.StringIO()
    with (
        acting(folder, words, variables or {}, workers),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            main(words)
        except SystemExit as leaving:
            assert isinstance(leaving.code, int)
            return Ended(code=leaving.code, out=out.getvalue(), err=err.getvalue())
    raise AssertionError("a command line ends by SystemExit")


def run_scripted_call(call: Callable[[], Any], folder: Path, workers: ScriptedWorkers) -> Ended:
    """Call the Python interface likewise: what is returned or raised is what was said."""
    out, err = io.StringIO(), io.StringIO()
    with acting(folder, [], {}, workers), redirect_stdout(out), redirect_stderr(err):
        try:
            said = f"returned {os.path.relpath(call())}\n"
        except Exception as error:
            return Ended(code=1, out=out.getvalue(), err=f"{err.getvalue()}raised {type(error).__name__}: {error}\n")
    return Ended(code=0, out=out.getvalue() + said, err=err.getvalue())
