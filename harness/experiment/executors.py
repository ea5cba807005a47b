"""Start an experiment's jobs with the right interpreter: this installation's, or the one given on the command
line."""

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from harness.config.matmul import as_choice
from harness.experiment.relation import find_relation
from harness.experiment.store import Store
from harness.foundation.errors import ExitCode, HarnessError
from harness.launch.process import WorkerEnd, launch_worker
from harness.launch.slots import Slot
from harness.measure.job import write_job
from harness.measure.kinds import Kind, OnEvent
from harness.run_sets.commands import resume_command
from harness.run_sets.event_log import SILENT, EventLog
from harness.run_sets.folder import RUN_SET_FILE, RunSet, given_fields
from harness.run_sets.hooks import NO_HOOKS, Hooks
from harness.run_sets.installation import Installation, ask_installation
from harness.run_sets.keepers import Keeper
from harness.system.code import code_sha256
from harness.system.description import describe_system, make_system_slug
from harness.system.software import make_spin_variables
from rules.benchmarks.loader import parse_benchmark, read_toml
from rules.records.run_set import RunSetRecord


@dataclass(frozen=True, kw_only=True, slots=True)
class RepetitionTask:
    """One repetition (run or measurement) that is about to start: its run set, its index in the set, and the user's
    commands (hooks) around it."""

    kind: Kind
    keeper: Keeper
    run_set: RunSet
    record: RunSetRecord
    index: int
    more: Mapping[str, Any]
    """Fields of the repetition's job that are not in the run set's record, such as a number of steps."""
    resume: str
    """Command that completes the experiment after an interruption, for messages."""
    hooks: Hooks = NO_HOOKS
    events: EventLog = SILENT
    slot: Slot | None = None
    """Cores and GPUs for a repetition that runs at the same time as others; None where no other runs at that time."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerExecutor:
    """Starter of worker processes, one for each job (or one for each rank), with the interpreter of this installation
    or of another one."""

    installation: Installation | None = None

    def run(self, repetition: RepetitionTask, folder: Path, on_event: OnEvent) -> WorkerEnd:
        """Start the worker process of a repetition's job in `folder` and wait for its end; the kind of measurement
        decides how many processes (ranks) take part."""
        kind, record, index = repetition.kind, repetition.record, repetition.index
        members = job_members(repetition.run_set, record, index, folder)
        members["power_command"] = repetition.hooks.power_command
        job = kind.make_job(record, index, members, repetition.more)
        with nullcontext() if repetition.slot is None else repetition.slot.stay():
            return launch_worker(
                write_job(kind, job),
                num_threads=record.num_threads,
                on_event=on_event,
                num_ranks=kind.num_ranks(job),
                interpreter=None if self.installation is None else self.installation.interpreter,
                variables=None if record.choice is None else make_spin_variables(record.choice.spin_count),
                timeout_s=record.timeout_s if "timeout_s" in kind.takes else None,
                slot=repetition.slot,
            )

    def refuse_other_system(self, run_set: RunSet, record: RunSetRecord) -> None:
        """Raise HarnessError (exit 2) where the system has changed since the run set began: this executor's
        installation runs on another machine, or with another framework."""
        if self.installation is None:
            found = describe_system(given_fields(record), device=record.config["runtime.device"].value)
            name, framework = make_system_slug(found), found.fields["framework"]
        else:
            system = self.installation.about.system
            name, framework = system.name, system.fields["framework"]
        # A given system name does not tell the software.
        begun = record.system.fields.get("framework", framework)
        for was, here in ((run_set.system, name), (begun, framework)):
            if was != here:
                raise HarnessError(f"{run_set.folder}: was begun on {was!r}, this is {here!r}. Start a new set here.")

    def refuse_other_code(self, folder: Path, record: RunSetRecord, group: str) -> None:
        """Raise HarnessError (exit 2) if this executor's dlrmbench has other code than the run set began with. Runs
        of one configuration may not mix two versions of the code, while configurations may differ in it."""
        here = code_sha256() if self.installation is None else self.installation.about.code_sha256
        if record.code_sha256 != here:
            who = "this dlrmbench" if self.installation is None else f"the dlrmbench of {self.installation.python}"
            raise HarnessError(
                f"{folder}: {record.name} was begun by code of digest {str(record.code_sha256)[:12]}, {who} is now "
                f"{here[:12]}. Put that code back, or start a new {group}."
            )


def job_members(run_set: RunSet, record: RunSetRecord, index: int, folder: Path) -> dict[str, Any]:
    """Return the fields that the jobs of every kind of measurement have, from the run set's definition and record.

    Raises HarnessError (exit 8) where the recorded choice of kernels for matrix products is invalid.
    """
    place = run_set.extra / RUN_SET_FILE
    tables = read_toml(run_set.definition)
    matmul = None if record.choice is None else record.choice.matmul
    if matmul is not None:
        as_choice(matmul, f"{place}: choice.matmul")
    return {
        "tables": {**tables, "runtime": {**tables.get("runtime", {}), "threads": record.num_threads}},
        "definition_path": str(run_set.definition),
        "data_dir": record.dataset.dir,
        "seed": record.seeds[index],
        "folder": str(folder),
        **({} if matmul is None else {"matmul": msgspec.to_builtins(matmul)}),
        **({} if record.id_map_sha256 is None else {"id_map_sha256": record.id_map_sha256}),
    }


def find_executors(store: Store, python: Path | None) -> dict[int, WorkerExecutor]:
    """Return an executor for each configuration; the keys are the configurations' indices. An executor starts worker
    processes with one Python interpreter.

    An interpreter that the experiment's file names is never started, since a stranger may have made the folder. The
    user must give it as `python` on the command line. Raises HarnessError (exit 2) if the experiment needs `python`
    and it is not given, or if it is given and not needed.
    """
    folder, record = store.folder, store.record
    if record.python is None and python is not None:
        if find_relation(record.relation).takes_python:
            raise HarnessError(f"{folder}: both of its sides are measured by this interpreter. Leave --python out.")
        raise HarnessError(f"--python is for a pair of 'run --beside', and {folder} is none. Leave it out.")
    if record.python is not None and python is None:
        command = resume_command(folder, record.python)
        raise HarnessError(f"{folder}: its base was measured by another interpreter. Name it again: {command}")
    found: dict[int, WorkerExecutor] = {}
    for place, (run_set, set_record) in store.sets.items():
        installation = None
        if python is not None and record.configurations[place].python is not None:
            tables = read_toml(run_set.definition)
            benchmark = parse_benchmark(tables, run_set.definition)
            installation = ask_installation(python, benchmark, tables, given_fields(set_record))
        found[place] = WorkerExecutor(installation=installation)
    return found


def refuse_other_definition(run_set: RunSet, record: RunSetRecord) -> None:
    """Raise HarnessError (exit 8) where the benchmark definition in a run set's folder differs from the one that the
    set began with."""
    benchmark = parse_benchmark(read_toml(run_set.definition), run_set.definition)
    if (benchmark.definition_sha256, benchmark.name) != (record.benchmark.definition_sha256, record.benchmark.name):
        raise HarnessError(
            f"{run_set.definition}: differs from the definition that the set began with.", ExitCode.INPUT
        )


def refuse_changed(store: Store, executors: Mapping[int, WorkerExecutor]) -> None:
    """Refuse to continue an experiment where a benchmark definition, the system or (if required) dlrmbench's code
    changed.

    Raises HarnessError: exit 8 if a definition changed, else exit 2.
    """
    for place, (run_set, record) in store.sets.items():
        refuse_other_definition(run_set, record)
        if store.record.on_other_code == "refuse":
            word = find_relation(store.record.relation).word
            executors[place].refuse_other_code(store.folder, record, word)
        executors[place].refuse_other_system(run_set, record)
