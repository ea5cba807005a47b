"""A pair: a set's configuration measured again beside a new one, in turns and with shared seeds.

<pair>/pair.json    what was asked; the kind, the number of pairs, the base seed
<pair>/base/        a run set: the configuration of SET, of this installation or of another interpreter's
<pair>/new/         a run set: what this command line says, of this installation

Run k of both is made before run k + 1 of either, base first, then new first, in turn (A B, B A, A B …), so that a
drift of the system that is even in time weighs on both alike.
"""

import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from msgspec.structs import replace as change

from harness.config.catalog import parse_recorded
from harness.config.matmul import GivenMatmul, as_choice, give_matmul
from harness.config.run_config import WORLD_SOURCE, Override, RunConfig, command_name
from harness.config.seeds import draw_base_seed
from harness.foundation.errors import ExitCode, HarnessError
from harness.foundation.files import read_record, write_record
from harness.measure.kinds import MeasurementKind, find_kind
from harness.run_sets.choice import ask, choose
from harness.run_sets.folder import RunSet, hold_lock, open_run_set
from harness.run_sets.installation import Installation, ask_installation
from harness.run_sets.measurement import gather_processes
from harness.run_sets.prepare import (
    Prepared,
    num_runs_of,
    prepare,
    refuse_impossible,
    refuse_output,
    refuse_outside_code,
    resolve_for,
)
from harness.run_sets.runner import (
    RunRequest,
    dataset_record,
    given_fields,
    refuse_other_system,
    start_set,
    unique_folder,
)
from harness.run_sets.sweep import OnRun, advance, is_done, is_sweep, take_turns
from harness.system.code import code_sha256
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
from rules.records.kinds import IN_PROCESSES
from rules.records.pair import BASE, NEW, SIDES, PairRecord
from rules.records.run_set import RunSetRecord

PAIR_FILE = "pair.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class PairRequest:
    """What is asked: the set whose configuration is the base, how the new one differs, and by what it is measured.

    Without `benchmark` the new configuration is that of `source` with `overrides`; with it, what the benchmark says
    with them. `asked` is what the kind was asked besides, where it differs from what `source` was.
    """

    source: Path
    python: Path | None = None
    benchmark: str | None = None
    overrides: Sequence[Override] = ()
    matmul: Path | None = None
    """Of the new configuration."""
    name: str | None = None
    kind: str | None = None
    asked: Mapping[str, int] | None = None
    num_runs: int | None = None
    base_seed: int | None = None
    division: str | None = None
    timeout_s: float | None = None
    data_root: Path | None = None
    output: Path = Path("results")
    command: Sequence[str] = ()
    quiet: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class _Source:
    """The set that is measured again: its record, and its configuration as it was resolved."""

    folder: Path
    record: RunSetRecord
    kind: MeasurementKind
    config: RunConfig


def start_pair(request: PairRequest) -> Path:
    """Resolve, refuse, make data; then create both sets, and pair.json last, so that a folder with it is whole.

    Raises HarnessError, ConfigError, DefinitionError or DatasetError before anything is written.
    """
    source = _open_source(request)
    record, kind, base = source.record, source.kind, source.config
    new = _resolve_new(request, source)
    for config in (base, new) if request.python is None else (new,):  # the other one is asked itself
        refuse_impossible(config.workload, is_served=kind.is_served)
    given = give_matmul(request.matmul, [new.workload])
    refuse_output(request.output)
    installation = None
    if request.python is not None:
        installation = ask_installation(request.python, base.benchmark, base.tables, given_fields(record))
    prepared = _prepare(request, source, base), _prepare(request, source, new)
    if not kind.is_served:
        prepared = _choose(source, base, new, prepared, installation, given, quiet=request.quiet)
    created = datetime.now(UTC)
    label = request.name or base.benchmark.name
    folder = unique_folder(request.output, f"beside-{label}-{created:%Y%m%dT%H%M%SZ}")
    options = kind.fit(request.asked or record.options, [each.size for each in prepared])
    asked_runs = RunRequest(
        num_runs=num_runs_of(kind, new, request.num_runs),
        base_seed=draw_base_seed() if request.base_seed is None else request.base_seed,
        division=record.division if _is_division_given(record) else request.division,
        timeout_s=request.timeout_s or record.timeout_s,
        kind=kind.name,
        options=options,
        output=folder,
        command=list(request.command),
        quiet=request.quiet,
    )
    folder.mkdir(parents=True)
    start_set(base, prepared[0], replace(asked_runs, name=BASE), installation)
    start_set(new, prepared[1], replace(asked_runs, name=NEW))
    assert asked_runs.base_seed is not None
    pair = PairRecord(
        name=folder.name,
        created_utc=created.isoformat(timespec="seconds"),
        harness_version=version("dlrmbench"),
        command=shlex.join(request.command),
        kind=kind.name,
        options=dict(options),
        num_runs=asked_runs.num_runs,
        base_seed=asked_runs.base_seed,
        source=str(request.source.absolute()),
        python=None if installation is None else installation.python,
    )
    write_record(folder / PAIR_FILE, pair)
    return folder


def _choose(
    source: _Source,
    base: RunConfig,
    new: RunConfig,
    prepared: tuple[Prepared, Prepared],
    installation: Installation | None,
    given: GivenMatmul | None,
    *,
    quiet: bool,
) -> tuple[Prepared, Prepared]:
    """Choose how both compute their steps: as SET did where it still fits, alike where both are of one shape."""
    recorded, of_set = source.record.choice, None
    if recorded is not None and recorded.matmul is not None:
        as_choice(recorded.matmul, f"--beside {source.folder}: choice.matmul")
    if recorded is not None and recorded.matmul is not None and recorded.matmul_source not in (None, "measured"):
        of_set = GivenMatmul(record=recorded.matmul, source=str(recorded.matmul_source))
        asked = [ask(config, each.data_dir, of_set) for config, each in zip((base, new), prepared, strict=True)]
        if given is None and len({question and question.key for question in asked}) == 1:
            given = of_set
    known = {} if recorded is None else {recorded.key: recorded}
    of_new = choose(new, prepared[1], known=known, given=given, quiet=quiet)
    is_able = installation is None or installation.about.chooses
    of_base = choose(
        base,
        prepared[0],
        known=known,
        given=of_set if is_able else None,
        installation=installation,
        quiet=quiet,
        measure=None if is_able else lambda *question: "its dlrmbench is too old for that",
    )
    if is_able:
        return of_base, of_new
    if of_base.choice is not None:
        of_base = replace(of_base, choice=change(of_base.choice, matmul=None, matmul_source=None))
    return of_base, of_new


def _is_division_given(record: RunSetRecord) -> bool:
    """Whether somebody chose the set's division; it is the benchmark's own otherwise."""
    return "division" not in record.submission or record.submission["division"].source != "benchmark"


def is_pair(folder: Path) -> bool:
    return (folder / PAIR_FILE).is_file()


def refuse_side(folder: Path) -> None:
    """Raise HarnessError (exit 2) for one set of a pair: what it lacks is made in turns with the other."""
    pair = folder.absolute().parent
    if folder.absolute().name in SIDES and is_pair(pair):
        raise HarnessError(
            f"{folder}: is one side of a pair, whose runs take turns. Complete the pair: {resume_pair(pair)}"
        )


def resume_pair(folder: Path, python: str | None = None) -> str:
    """Return the command that completes the pair, with the interpreter that it was begun with."""
    python = python or read_record(folder / PAIR_FILE, PairRecord).python
    words = [] if python is None else ["--python", python]
    return shlex.join(["dlrmbench", "resume", str(folder), *words])


def complete_pair(
    folder: Path, *, python: Path | None = None, quiet: bool = False, on_run: OnRun | None = None
) -> PairRecord:
    """Run whatever is missing, in turns. Raises HarnessError where a run is interrupted, and, before any, where the
    code or the system is not what the pair began with, or another interpreter is not given (`python`)."""
    with hold_lock(folder / "lock", folder):
        pair = read_record(folder / PAIR_FILE, PairRecord)
        sets = {side: open_run_set(folder / side) for side in SIDES}
        installations = {BASE: _other_installation(folder, pair, python, *sets[BASE]), NEW: None}
        for side, (run_set, record) in sets.items():
            _refuse_other_code(folder, record, installations[side])
            refuse_other_system(run_set, record, installations[side])
        waiting = [
            (progress, SIDES[position])
            for progress, position in take_turns(pair.num_runs, dict(enumerate(SIDES)))
            if not is_done(*sets[SIDES[position]], progress.run_index)
        ]
        command = resume_pair(folder, pair.python)
        for progress, side in waiting:
            if on_run is not None:
                on_run(progress)
            advance(folder / side, progress.run_index, quiet=quiet, installation=installations[side], resume=command)
        if not find_kind(pair.kind).is_scored:
            for run_set, record in sets.values():
                gather_processes(run_set, record)
    return pair


def _other_installation(
    folder: Path, pair: PairRecord, python: Path | None, run_set: RunSet, record: RunSetRecord
) -> Installation | None:
    """Ask the interpreter that is given; a pair may be anyone's, so none is started for being named in it."""
    if (pair.python is None) != (python is None):
        if python is None:
            command = resume_pair(folder)
            raise HarnessError(
                f"{folder}: its base was measured by another interpreter. Give it to run it: {command}"
            )
        raise HarnessError(f"{folder}: both of its sides are measured by this interpreter. Leave --python out.")
    if python is None:
        return None
    tables = read_toml(run_set.definition)
    return ask_installation(python, parse_benchmark(tables, run_set.definition), tables, given_fields(record))


def _refuse_other_code(folder: Path, record: RunSetRecord, installation: Installation | None) -> None:
    """Refuse to go on with other code: the code is what may be compared, and half a side would be of each."""
    here = code_sha256() if installation is None else installation.about.code_sha256
    if record.code_sha256 != here:
        who = "this dlrmbench" if installation is None else f"the dlrmbench of {installation.python}"
        raise HarnessError(
            f"{folder}: {record.name} was begun by code of digest {str(record.code_sha256)[:12]}, {who} is now "
            f"{here[:12]}. Put that code back, or start a new pair."
        )


def _open_source(request: PairRequest) -> _Source:
    """Read the set that is measured again. Raises HarnessError where it is no set, or cannot be run here."""
    folder = request.source
    if is_pair(folder) or is_sweep(folder):
        parts = "".join(f"\n  {path.parents[1]}" for path in sorted(folder.glob("*/extra/run_set.json")))
        raise HarnessError(f"--beside {folder}: holds several sets; give one of them:{parts}")
    run_set, record = open_run_set(folder)
    kind = find_kind(record.kind)
    if not kind.is_scored and kind.name not in IN_PROCESSES:
        raise HarnessError(f"--beside {folder}: holds a {kind.name}, which is of one process and compared with none.")
    if request.kind not in (None, kind.name):
        raise HarnessError(
            f"--beside {folder}: is a set of {kind.name}, and {request.kind} is asked for. Both sides are measured "
            f"as SET was: leave --{request.kind} out, or give a set of that."
        )
    if request.timeout_s is not None and not kind.is_scored:
        raise HarnessError(f"--timeout is for runs to the target; {folder} holds {kind.name}, which ends by itself.")
    if any(entry.source == WORLD_SOURCE for entry in record.config.values()):
        raise HarnessError(
            f"--beside {folder}: its ranks are started by torchrun or srun, which cannot take turns here."
        )
    tables = read_toml(run_set.definition)
    benchmark = parse_benchmark(tables, run_set.definition)
    _refuse_other_definition(run_set, record, benchmark)
    refuse_outside_code(folder, _given_code(request), _again)
    config = RunConfig(
        benchmark=benchmark,
        workload=parse_recorded(benchmark),
        tables=tables,
        sources={key: entry.source for key, entry in record.config.items() if entry.source not in _NOT_GIVEN},
        label="",
        submission={name: entry for name, entry in given_fields(record).items() if name != "division"},
    )
    if request.division not in (None, record.division):
        raise HarnessError(
            f"--division is {request.division}, and {folder} is of the {record.division} division: results of two "
            "divisions are not compared. Leave --division out."
        )
    return _Source(folder=folder, record=record, kind=kind, config=config)


_NOT_GIVEN = ("definition", "default")


def _refuse_other_definition(run_set: RunSet, record: RunSetRecord, benchmark: Benchmark) -> None:
    """Refuse a set whose definition was changed, or is of no version that is shipped by that name."""
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


def _given_code(request: PairRequest) -> Mapping[str, Collection[str]]:
    """What is not dlrmbench's own and was named on this command line: the model of BENCHMARK, an implementation."""
    given = {each.key: str(each.value) for each in request.overrides}
    files = {
        what: [given[key]] if (key := f"runtime.{what}") in given else [] for what in ("model", "implementation")
    }
    models = [] if request.benchmark is None else [load_benchmark(request.benchmark).model]
    return {**files, "model": [*models, *files["model"]]}


def _again(folder: Path, missing: Sequence[tuple[str, str]]) -> str:
    """Say how to run beside a set what only it names."""
    words = [
        f"--{what} {shlex.quote(name)}"
        if what != "model" or parse_place(name) is not None
        else "BENCHMARK, a definition of that model"
        for what, name in missing
    ]
    return (
        f"--beside {folder}: was made with what is not dlrmbench's own. That code runs where it is given, and then "
        f"for both sides: give {' and '.join(words)}. Two implementations of your own are compared by 'dlrmbench "
        "sweep --axis runtime.implementation=A,B'."
    )


def _resolve_new(request: PairRequest, source: _Source) -> RunConfig:
    """Resolve what the command line says. Raises HarnessError where its runs cannot be compared with the base's."""
    base, kind = source.config, source.kind
    if request.benchmark is not None:
        config = resolve_for(kind, request.benchmark, request.overrides, request.name)
    else:
        suffix = f"_{kind.name}"
        name = base.benchmark.name if not kind.is_scored and base.benchmark.name.endswith(suffix) else request.name
        config = resolve_for(kind, str(base.benchmark.path), request.overrides, name)
        config = replace(
            config,
            sources={**base.sources, **config.sources},
            submission={**base.submission, **config.submission},
        )
    if kind.is_scored and config.benchmark.definition_sha256 != base.benchmark.definition_sha256:
        changed = ", ".join(each.key for each in request.overrides) or command_name(config.benchmark)
        raise HarnessError(
            f"--beside {request.source}: is of {base.benchmark.name}, definition "
            f"{base.benchmark.definition_sha256[:12]}; with {changed} the new runs would be of another one "
            f"({config.benchmark.definition_sha256[:12]}), and times of two problems are not compared. Beside a "
            "measurement of 'run --throughput' anything may vary."
        )
    return config


def _prepare(request: PairRequest, source: _Source, config: RunConfig) -> Prepared:
    """Make or find the data, by default what SET was measured on. Raises DatasetError where it is gone."""
    recorded, root = source.record.dataset, request.data_root
    is_alike = config.workload.data == source.config.workload.data
    if root is None and is_alike and Path(recorded.dir).is_dir():
        root = Path(recorded.dir)
    prepared = prepare(config, root, quiet=request.quiet)
    found = dataset_record(prepared.data_dir)["dataset_sha256"]
    if is_alike and None not in (found, recorded.dataset_sha256) and found != recorded.dataset_sha256:
        raise HarnessError(
            f"{prepared.data_dir}: holds other data (digest {str(found)[:12]}) than {request.source} was measured on "
            f"({str(recorded.dataset_sha256)[:12]}, in {recorded.dir}). Give that with --data.",
            ExitCode.INPUT,
        )
    return prepared
