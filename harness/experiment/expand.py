"""From a request to an experiment: every configuration resolved, and every refusal made. Writes nothing.

Imports no torch, but to look at a GPU or a precision that is asked for.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from harness.autotune.tuning import Preparation
from harness.config.axes import Axis, make_points, overrides_of, read_axis
from harness.config.matmul import GivenMatmul, give_matmul
from harness.config.run_config import WORLD_SOURCE, Override, RunConfig
from harness.config.suite import Suite
from harness.experiment.orders import find_order
from harness.experiment.request import Request, RequestError, as_text
from harness.experiment.search.space import Range, read_space, refuse_code
from harness.experiment.search.trials import columns_asked, kind_with
from harness.experiment.sides import Source, open_source, resolve_beside
from harness.experiment.stopping import find_stop_rule, make_until
from harness.foundation.errors import HarnessError
from harness.measure.kinds import Kind, find_kind, kinds_asked_by
from harness.measure.refusals import refuse_id_map, refuse_unfittable, refuse_unprofilable
from harness.run_sets.hooks import Hooks
from harness.run_sets.installation import Installation
from harness.run_sets.names import find_weights, name_given
from harness.system.energy import EnergyMeter
from harness.system.launcher_env import launcher_of_many, world_size
from rules.benchmarks.loader import load_benchmark
from rules.records.columns import ENERGY_DELAY
from rules.records.experiment import BASE, BENCHMARK_AXIS, NEW, SIDE_AXIS, FailureRecord, Relation
from rules.records.run_set import UntilRecord

BATCH_SIZE = "train.global_batch_size"


@dataclass(frozen=True, kw_only=True, slots=True)
class Configuration:
    """One configuration of an experiment; `failure` is why it cannot be measured."""

    label: str
    config: RunConfig
    folder: str = ""
    """The name of its run set's folder in the group."""
    values: Mapping[str, str] = field(default_factory=dict)
    """What is varied, as it was written, by key."""
    installation: Installation | None = None
    """The dlrmbench that measures it, where it is another than this one."""
    prepared: Preparation | None = None
    failure: FailureRecord | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Experiment:
    """What is going to be measured, how often, and how the configurations belong together."""

    request: Request
    kind: Kind
    options: Mapping[str, int]
    """What the kind is asked besides."""
    relation: Relation
    configurations: tuple[Configuration, ...]
    repetitions: int
    axes: tuple[Axis, ...] = ()
    until: UntilRecord | None = None
    division: str | None = None
    timeout_s: float | None = None
    matmul: GivenMatmul | None = None
    source: Source | None = None
    """The set that the first of two sides repeats."""

    @property
    def leaves_out(self) -> bool:
        """Return whether a configuration that fails is left out, and not the end of all."""
        return self.relation in ("matrix", "suite")

    @property
    def is_autotuned(self) -> bool:
        """Return whether how steps are computed is chosen by timing before the first repetition.

        Ranks share the cores among them, in every number that is compared; externally launched ones choose nothing.
        """
        are_ranks_varied = any(axis.key == "runtime.ranks" for axis in self.axes)
        return self.kind.is_autotuned and not are_ranks_varied and self.request.run_index is None


def expand(request: Request) -> Experiment:
    """Resolve what is asked for. Raises HarnessError, ConfigError or DefinitionError where it cannot be run."""
    kind, options = asked_kind(request)
    _refuse_combinations(request, kind)
    request = with_weights(request)
    if request.beside is not None:
        experiment = _expand_sides(request, kind, options)
    elif request.suite is not None:
        experiment = _expand_suite(request, request.suite, kind, options)
    elif request.verb == "tune":
        experiment = _expand_search(request, kind, options)
    elif request.verb == "sweep":
        experiment = _expand_matrix(request, kind, options)
    else:
        experiment = _expand_one(request, kind, options)
    for each in experiment.configurations:
        refuse_id_map(each.config.workload.data, experiment.kind.takes_id_maps)
    return experiment


def with_weights(request: Request) -> Request:
    """Return the request with the folder of the weights that are served. Raises HarnessError where a set has none."""
    if request.weights is None:
        return request
    source = f"option {request.spelled('weights')}" if request.typed else "weights"
    # Whole, since `latest` is about to be another set.
    served = Override(key="serve.weights", value=str(find_weights(request.weights).resolve()), source=source)
    return replace(request, overrides=(*request.overrides, served))


def asked_kind(request: Request) -> tuple[Kind, dict[str, int]]:
    """Return the kind that is asked for, and what of it. Raises RequestError where the verb cannot be asked so."""
    if not request.kinds:
        return find_kind("training"), {}
    name, *others = request.kinds
    if others:
        both = " and ".join(f"--{other}" if request.typed else other for other in (name, others[0]))
        raise RequestError(f"{both} are two measurements; give one of them.")
    kind, number = find_kind(name), request.kinds[name]
    if number is not None and number < 1:
        raise RequestError(f"{name} is {number}, expected a whole number of at least 1.")
    option, verb = kind.option, request.verb
    if verb != kind.name and (option is None or verb not in option.verbs):
        known = ", ".join(each.name for each, _ in kinds_asked_by(verb))
        raise RequestError(f"{name} is no kind that {verb!r} can be asked for, which are {known}.")
    member = None if option is None else option.member
    if (number is None) != (member is None):
        expected = "no number" if member is None else "a whole number of at least 1"
        raise RequestError(f"{name} is {number}, expected {expected}.")
    return kind, {} if member is None or number is None else {member: number}


def _refuse_combinations(request: Request, kind: Kind) -> None:
    """Raise RequestError for what is asked together and does not belong together; find order and stop rule."""
    find_order(request.order)
    if find_stop_rule(request.stop) is not None and request.beside is None and not request.axes:
        raise RequestError("a stop rule is of two configurations or more; a set alone is given until.")
    named = request.spelled
    if request.run_index is not None and (Hooks.asked_by(request).asked or request.log_to):
        raise RequestError(
            "--prepare, --cleanup, --power-command and --log-to are for runs that this command starts itself."
        )
    asked = f"--{kind.name}" if request.typed else kind.name
    if request.timeout_s is not None and "timeout_s" not in kind.takes and request.beside is None:
        raise RequestError(f"{named('timeout_s')} is for runs to the target; {asked} ends by itself.")
    if request.keep_weights and ("keep_weights" not in kind.takes or request.beside is not None):
        of = "" if request.verb == "sweep" else " of one set"
        raise RequestError(
            f"{named('keep_weights')} is for runs to the target{of}; a measurement trains nothing whole."
        )
    if request.with_fit and "with_fit" not in kind.takes:
        raise RequestError(f"{named('with_fit')} is of --quality SAMPLES; give that too.")
    if request.weights is not None and "weights" not in kind.takes:
        raise RequestError(f"{named('weights')} is what --serve serves; give that too.")
    if request.beside is not None:
        if request.until is not None or request.max_runs is not None or request.run_index is not None:
            left_out = [named("until"), named("max_runs")] + ([named("run_index")] if request.typed else [])
            words = f"{', '.join(left_out[:-1])} and {left_out[-1]}"
            pairs = "-n pairs" if request.typed else "`runs` pairs"
            raise RequestError(f"{named('beside')} makes {pairs} itself; leave {words} out.")
        return
    if request.python is not None:
        raise RequestError(
            f"{named('python')} is the interpreter of the set that {named('beside')} names; give that too."
        )


def _refuse_stop(request: Request, kind: Kind) -> None:
    """Raise RequestError where runs cannot be added until the mean is known."""
    named = request.spelled
    if request.max_runs is not None and request.until is None:
        runs = "-n for a number of runs" if request.typed else "runs"
        raise RequestError(f"{named('max_runs')} is the end of {named('until')}; give that too, or {runs}.")
    if request.until is not None and (
        "until" not in kind.takes or request.run_index is not None or not 0 < request.until < 1
    ):
        raise RequestError(
            f"{named('until')} is a fraction above 0, for runs to the target that this command starts."
        )


def _benchmark_of(request: Request) -> str:
    return request.benchmark or "dlrm_small"


def _expand_one(request: Request, kind: Kind, options: Mapping[str, int]) -> Experiment:
    request = _in_world(request, kind)
    _refuse_stop(request, kind)
    config = kind.resolve(_benchmark_of(request), request.overrides, request.name)
    repetitions = kind.repetitions(config, request.runs)
    until = None
    if request.until is not None:
        until = make_until(config.benchmark, request.until, repetitions, request.max_runs)
    kind.check(config.workload)
    return Experiment(
        request=request,
        kind=kind,
        options=options,
        relation="one",
        configurations=(Configuration(label=config.label or config.benchmark.name, config=config),),
        repetitions=repetitions,
        until=until,
        division=request.division,
        timeout_s=request.timeout_s,
        matmul=give_matmul(request.matmul, [config.workload]),
    )


def _in_world(request: Request, kind: Kind) -> Request:
    """Add the ranks of an external launcher's world. Raises RequestError where others are asked for."""
    if request.verb != "run":
        return request
    launched = ranks_of_world(request, kind)
    if launched is None:
        return request
    given = [each.value for each in request.overrides if each.source == "option --ranks"]
    if given and given[-1] != launched:
        raise RequestError(f"--ranks is {given[-1]}, but {launched} ranks were started. Leave --ranks out.")
    ranks = Override(key="runtime.ranks", value=launched, source=WORLD_SOURCE)
    return replace(request, overrides=(*request.overrides, ranks))


def ranks_of_world(request: Request, kind: Kind) -> int | None:
    """Count the ranks of the world that this process was launched in; None where it starts its own.

    Raises RequestError where it is one of several and was not told which run it is a rank of, or told without being
    one.
    """
    if not request.typed:
        return None
    if request.run_index is None:
        if launcher := launcher_of_many(os.environ):
            raise RequestError(
                f"{launcher} started this process as one of several, and each would run the whole benchmark: give "
                "--run-index, or start one process: 'dlrmbench run --ranks N' starts its own ranks."
            )
        return None
    if "run_index" not in kind.takes:
        raise RequestError(f"--run-index is for runs to the target, not for --{kind.name}.")
    if request.matmul is not None:
        raise RequestError("--matmul is for runs that this command starts itself, in one process each.")
    size = world_size(os.environ)
    if size is None:
        raise RequestError("--run-index is for a process that torchrun or srun started: no WORLD_SIZE is set.")
    # Its words, with their stack traces, are about what our own messages name. Read when torch is first imported.
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    return size


def _expand_matrix(request: Request, kind: Kind, options: Mapping[str, int]) -> Experiment:
    """Resolve every combination of the axes' values.

    Raises ConfigError for an axis that cannot be, or that the kind may not vary; HarnessError for what cannot be run.
    """
    benchmark = _benchmark_of(request)
    base = kind.resolve(benchmark, request.overrides, request.name)
    axes = [read_axis(text, base.workload.model_spec.width_keys) for text in request.axes]
    points = make_points(axes)
    for override in request.overrides:
        if override.key in {axis.key for axis in axes}:
            raise HarnessError(f"{override.key} is set by {override.source} and by --axis; give it once.")
    kind.check_axes(axes, base.benchmark)
    configs = [kind.resolve(benchmark, [*request.overrides, *overrides_of(point)], request.name) for point in points]
    for config in configs:
        kind.check(config.workload)
        if request.with_profile:
            refuse_unprofilable(config.workload)
    if request.with_fit:
        refuse_unfittable([config.workload for config in configs])
    return Experiment(
        request=request,
        kind=kind,
        options=options,
        relation="matrix",
        configurations=tuple(
            Configuration(
                label=point.label, config=config, folder=f"{number:02d}-{point.folder_name}", values=point.texts
            )
            for number, (point, config) in enumerate(zip(points, configs, strict=True), start=1)
        ),
        repetitions=1 if request.is_ranking else kind.repetitions(base, request.runs),
        axes=tuple(axes),
        division=request.division,
        timeout_s=request.timeout_s,
        matmul=give_matmul(request.matmul, [config.workload for config in configs]),
    )


def _expand_search(request: Request, kind: Kind, options: Mapping[str, int]) -> Experiment:
    """Resolve the default, which is the first trial.

    Raises ConfigError for a value, or an end of a range, that is not possible beside it; HarnessError for what it
    looks for and the kind does not measure here.
    """
    benchmark, search = _benchmark_of(request), None if request.stop is None else request.stop.search
    assert search is not None
    base = kind.resolve(benchmark, request.overrides, request.name)
    axes = read_space(request.axes, base.workload.model_spec.width_keys)
    kind_with(search, kind.name)
    kind.check_axes(axes, base.benchmark)
    for axis in axes:
        if isinstance(axis, Range) and axis.key == BATCH_SIZE and "num_samples" in options:
            raise RequestError(f"--axis {axis.key}: samples are whole batches of all trials. Give sizes: KEY=V1,V2.")
        refuse_code(axis, base.workload.model_spec)
        for value in axis.values:
            changed = Override(key=axis.key, value=value, source=f"--axis {axis.key}")
            kind.resolve(benchmark, [*request.overrides, changed], request.name)
    kind.check(base.workload)
    if ENERGY_DELAY.member in columns_asked(search) and request.power_command is None:
        EnergyMeter(base.workload.runtime.device).require_counter()
    known = base.values()
    default = {axis.key: _write_value(axis, known[axis.key]["value"]) if axis.key in known else "" for axis in axes}
    only = Configuration(label="default", config=base, folder="01-default", values=default)
    return Experiment(
        request=request, kind=kind, options=options, relation="search", configurations=(only,), repetitions=1,
        axes=axes, division=request.division, timeout_s=request.timeout_s,
    )  # fmt: skip


def _write_value(axis: Axis, value: Any) -> str:
    """Write the default's value, where the axis has it as that does: one point has one spelling."""
    known = () if isinstance(axis, Range) else zip(axis.values, axis.texts, strict=True)
    return next((text for own, text in known if own == value), as_text(value))


def _expand_suite(request: Request, suite: Suite, kind: Kind, options: Mapping[str, int]) -> Experiment:
    """Resolve both sides of every benchmark. Raises ConfigError, DefinitionError or HarnessError for what cannot be
    run, or whose sides may not be compared.
    """
    configurations: list[Configuration] = []
    repetitions = []
    for number, name in enumerate(suite.benchmarks, start=1):
        configs = {
            side: kind.resolve(name, [*request.overrides, *suite.settings[side]], None) for side in (BASE, NEW)
        }
        base, new = configs[BASE].benchmark, configs[NEW].benchmark
        if not kind.is_comparable(base, new):
            raise RequestError(
                f"{name}: the settings of base and new make two benchmarks ({base.definition_sha256[:12]}, "
                f"{new.definition_sha256[:12]}), and times of two problems are not compared."
            )
        title = load_benchmark(name).name
        for side, config in configs.items():
            kind.check(config.workload)
            repetitions.append(kind.repetitions(config, request.runs))
            configurations.append(
                Configuration(
                    label=f"{title}, {side}",
                    folder=f"{number:02d}-{title[:80]}-{side}",
                    config=config,
                    values={BENCHMARK_AXIS: title, SIDE_AXIS: side},
                )
            )
    return Experiment(
        request=replace(request, order="pairs"),
        kind=kind,
        options=options,
        relation="suite",
        configurations=tuple(configurations),
        repetitions=max(repetitions),
        division=request.division,
        timeout_s=request.timeout_s,
    )


def _expand_sides(request: Request, kind: Kind, options: Mapping[str, int]) -> Experiment:
    """Resolve the configuration of the set that is measured again, and the new one beside it."""
    ranks_of_world(request, kind)
    source = open_source(request, kind if request.kinds else None)
    kind, base = source.kind, source.config
    new = resolve_beside(request, source)
    for config in (base, new) if request.python is None else (new,):  # the other one is asked itself
        kind.check(config.workload)
    record = source.record
    return Experiment(
        request=request,
        kind=kind,
        options=options or record.options,
        relation="sides",
        configurations=(
            Configuration(label=name_given(source.folder) or BASE, folder=BASE, config=base),
            Configuration(label=request.name or NEW, folder=NEW, config=new),
        ),
        repetitions=kind.repetitions(new, request.runs),
        division=record.division if source.is_division_given else request.division,
        timeout_s=request.timeout_s or record.timeout_s,
        matmul=give_matmul(request.matmul, [new.workload]),
        source=source,
    )
