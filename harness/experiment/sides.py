"""Resolve the two configurations of a pair: an existing run set's, measured again, and a new one."""

import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.config.catalog import parse_recorded
from harness.config.run_config import WORLD_SOURCE, RunConfig, command_name
from harness.experiment.request import Request
from harness.foundation.errors import ExitCode, HarnessError
from harness.measure.kinds import Kind, find_kind
from harness.run_sets.folder import RunSet, given_fields, open_run_set
from harness.run_sets.outside_code import refuse_outside_code
from reference_models.registry import parse_place
from rules.benchmarks.loader import (
    Benchmark,
    list_versions,
    load_benchmark,
    parse_benchmark,
    read_toml,
    shipped_names,
    shipped_twin,
)
from rules.records.experiment import not_one_set
from rules.records.run_set import RunSetRecord


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """Existing run set whose configuration is measured again: its record, and its configuration as it was
    resolved."""

    folder: Path
    record: RunSetRecord
    kind: Kind
    config: RunConfig

    @property
    def is_division_given(self) -> bool:
        """Whether the run set's division (closed or open) was chosen by a user rather than by the benchmark's
        default; True also where the set's record does not say."""
        submission = self.record.submission
        return "division" not in submission or submission["division"].source != "benchmark"


_NOT_GIVEN = ("definition", "default")


def open_source(request: Request, asked: Kind | None) -> Source:
    """Read the run set named by --beside, to measure it again; `asked` is the requested kind of measurement, if any.

    Raises HarnessError where the folder is no run set, or cannot be run here.
    """
    folder = request.beside
    assert folder is not None
    if (said := not_one_set(folder)) is not None:
        raise HarnessError(f"--beside {folder}: {said}")
    run_set, record = open_run_set(folder)
    kind = find_kind(record.kind)
    _refuse_other_kind(folder, request, asked, kind)
    if any(entry.source == WORLD_SOURCE for entry in record.config.values()):
        raise HarnessError(
            f"--beside {folder}: its ranks are started by torchrun or srun, so it cannot be measured alternately."
        )
    _refuse_other_definition(run_set, record, parse_benchmark(read_toml(run_set.definition), run_set.definition))
    refuse_outside_code(folder, given_code(request), _again)
    _refuse_unsaid_hooks(folder, request, record)
    source = read_source(folder)  # only now, since parsing may import its code
    if request.division not in (None, record.division):
        raise HarnessError(
            f"--division is {request.division}, and {folder} is of the {record.division} division: results of two "
            "divisions are not compared. Leave --division out."
        )
    return source


def read_source(folder: Path) -> Source:
    """Read a run set's record and its resolved configuration. Raises HarnessError or DefinitionError."""
    run_set, record = open_run_set(folder)
    tables = read_toml(run_set.definition)
    benchmark = parse_benchmark(tables, run_set.definition)
    config = RunConfig(
        benchmark=benchmark,
        workload=parse_recorded(benchmark),
        tables=tables,
        sources={key: entry.source for key, entry in record.config.items() if entry.source not in _NOT_GIVEN},
        label="",
        submission={name: entry for name, entry in given_fields(record).items() if name != "division"},
    )
    return Source(folder=folder, record=record, kind=find_kind(record.kind), config=config)


def _refuse_unsaid_hooks(folder: Path, request: Request, record: RunSetRecord) -> None:
    """Raise HarnessError (exit 2) if hooks (user's commands) ran around the existing run set's runs, and the user
    neither gives these hooks again nor declines them. Both configurations of a pair must have the same hooks, or
    none. A command that is only named in a file is never started."""
    unsaid = {
        name: command for name, command in record.hooks.items() if getattr(request, name.replace("-", "_")) is None
    }
    if not unsaid:
        return
    again = " ".join(f"--{name} {shlex.quote(command)}" for name, command in unsaid.items())
    without = " ".join(f"--{name} ''" for name in unsaid)
    raise HarnessError(
        f"{folder}: was made with commands around its runs. To run them around both sides' runs, give the same: "
        f"{again}. To measure both without: {without}."
    )


def _refuse_other_kind(folder: Path, request: Request, asked: Kind | None, kind: Kind) -> None:
    if kind.max_repetitions is not None:
        raise HarnessError(f"--beside {folder}: holds a {kind.name}, which has a single process and is not compared.")
    if asked is not None and asked.name != kind.name:
        raise HarnessError(
            f"--beside {folder}: is a set of {kind.name}, and {asked.name} is asked for. Both sides are measured "
            f"as SET was: leave --{asked.name} out, or give a set of that."
        )
    if request.timeout_s is not None and "timeout_s" not in kind.takes:
        raise HarnessError(f"--timeout is for runs to the target; {folder} holds {kind.name}, which ends by itself.")


def _refuse_other_definition(run_set: RunSet, record: RunSetRecord, benchmark: Benchmark) -> None:
    """Raise HarnessError where a run set's definition was changed, or has a shipped benchmark's name and equals none
    of its versions."""
    if benchmark.definition_sha256 != record.benchmark.definition_sha256:
        raise HarnessError(
            f"{run_set.definition}: differs from the definition that the set was made with.", ExitCode.INPUT
        )
    if benchmark.name in shipped_names() and shipped_twin(benchmark) is None:
        raise HarnessError(
            f"--beside {run_set.folder}: was made with {benchmark.name} of definition "
            f"{benchmark.definition_sha256[:12]}, which none of the versions here has "
            f"({list_versions(benchmark.name)}): another benchmark, whose times are not compared. Make a set with "
            "one of these first."
        )


def given_code(request: Request) -> Mapping[str, Collection[str]]:
    """Return the models and implementations, by kind, that the request names and that may not be dlrmbench's own."""
    files = {
        what: [str(each.value) for each in request.overrides if each.key == f"runtime.{what}"]
        for what in ("model", "implementation")
    }
    models = [] if request.benchmark is None else [load_benchmark(request.benchmark).model]
    return {**files, "model": [*models, *files["model"]]}


def _again(folder: Path, missing: Sequence[tuple[str, str]]) -> str:
    """Return the error message for a pair whose existing run set used the user's own code: which models and
    implementations the user must name again."""
    words = [
        f"--{what} {shlex.quote(name)}"
        if what != "model" or parse_place(name) is not None
        else "BENCHMARK, a definition of that model"
        for what, name in missing
    ]
    return (
        f"--beside {folder}: was made with code that is not dlrmbench's own, which runs only if you name it, and "
        f"then for both sides: give {' and '.join(words)}. Two implementations of your own are compared by "
        "'dlrmbench sweep --axis runtime.implementation=A,B'."
    )


def resolve_beside(request: Request, source: Source) -> RunConfig:
    """Return the new configuration of a pair. Its benchmark is the one that the request names or, if the request
    names none, the existing run set's. The values that the user gives are then applied.

    Raises HarnessError if runs of the new configuration cannot be compared with the run set's.
    """
    base, kind = source.config, source.kind
    if request.benchmark is not None:
        config = kind.resolve(request.benchmark, request.overrides, request.name)
    else:
        suffix = kind.derived_suffix
        is_derived = suffix is not None and base.benchmark.name.endswith(suffix)
        config = kind.resolve(
            str(base.benchmark.path), request.overrides, base.benchmark.name if is_derived else request.name
        )
        config = replace(
            config,
            sources={**base.sources, **config.sources},
            submission={**base.submission, **config.submission},
        )
    if not kind.is_comparable(base.benchmark, config.benchmark):
        changed = ", ".join(each.key for each in request.overrides) or command_name(config.benchmark)
        raise HarnessError(
            f"--beside {request.beside}: is of {base.benchmark.name}, definition "
            f"{base.benchmark.definition_sha256[:12]}; with {changed} the new runs would be of another one "
            f"({config.benchmark.definition_sha256[:12]}), and times of two problems are not compared. Beside a "
            "measurement of 'run --throughput' anything may vary."
        )
    return config
