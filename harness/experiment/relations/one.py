"""Make experiments of only one configuration: a run set, or a measurement such as a profile."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from harness.config.matmul import give_matmul
from harness.config.run_config import WORLD_SOURCE, Override
from harness.experiment.experiment import Configuration, Experiment
from harness.experiment.finish import finish_set
from harness.experiment.relation import Relation
from harness.experiment.request import Request, RequestError
from harness.experiment.stopping import make_until
from harness.experiment.store import read
from harness.measure.kinds import Kind, find_kind
from harness.system.launcher_env import launcher_of_many, world_size


@dataclass(frozen=True, kw_only=True, slots=True)
class One(Relation):
    """Relation of an experiment of a single configuration. It has no experiment.json: the record of its run set
    describes it."""

    def expand(self, request: Request, kind: Kind, options: Mapping[str, int]) -> Experiment:
        request = in_world(request, kind)
        _refuse_stop(request, kind)
        config = kind.resolve(request.benchmark_named, request.overrides, request.name)
        repetitions = kind.repetitions(config, request.runs)
        until = None
        if request.until is not None:
            until = make_until(config.benchmark, request.until, repetitions, request.max_runs)
        kind.check(config.workload)
        return Experiment(
            request=request,
            kind=kind,
            options=options,
            relation=self.name,
            configurations=(Configuration(label=config.label or config.benchmark.name, config=config),),
            repetitions=repetitions,
            until=until,
            division=request.division,
            timeout_s=request.timeout_s,
            matmul=give_matmul(request.matmul, [config.workload]),
        )

    def write_pages(self, folder: Path) -> None:
        if find_kind(read(folder).kind).keeper == "logs":
            finish_set(folder)


ONE = One(name="one", word="set", reads_as="alone", on_other_code="warn")


def in_world(request: Request, kind: Kind) -> Request:
    """Return the request with as many ranks as torchrun or srun started. Raises RequestError where another number is
    given."""
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
    """Return the number of ranks that torchrun or srun started; None where this process starts its own.

    Raises RequestError where this process is one rank of several without --run-index, or has --run-index without
    being a rank.
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
    # torch's messages, with stack traces, repeat our own. The variable is read when torch is first imported.
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    return size


def _refuse_stop(request: Request, kind: Kind) -> None:
    """Raise RequestError where --until or --max-runs (which add runs until the mean is precise) does not apply."""
    named = request.spelled
    if request.max_runs is not None and request.until is None:
        runs = "-n for a number of runs" if request.typed else "runs"
        raise RequestError(f"{named('max_runs')} limits {named('until')}; give that too, or {runs}.")
    if request.until is not None and (
        "until" not in kind.takes or request.run_index is not None or not 0 < request.until < 1
    ):
        raise RequestError(
            f"{named('until')} is a fraction above 0, for runs to the target that this command starts."
        )
