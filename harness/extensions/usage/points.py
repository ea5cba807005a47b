"""Make the study of a usage file (the models of one application): resolve or refuse every model, prepare data, then
measure the usage at every value of a varied key."""

import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from harness.config.catalog import has_implementation
from harness.config.run_config import Override, RunConfig
from harness.experiment.prepare import prepare_data
from harness.extensions.serving.job import resolve_served
from harness.extensions.serving.queue_job import KIND
from harness.extensions.usage.cascade import find_cascades, measure_cascade, with_cascade
from harness.extensions.usage.crew import Crew, open_retrieval
from harness.extensions.usage.definition import RETRIEVAL, STAND_IN, Usage, parse_usage
from harness.extensions.usage.measuring import MeasuredUsage, Share, UsageSeeds, measure_usage
from harness.extensions.usage.score import Counting
from harness.extensions.usage.study import find_hopeless, make_usage_study
from harness.foundation.errors import ExitCode, HarnessError
from harness.foundation.status_line import StatusLine
from harness.measure.refusals import refuse_unservable
from harness.run_sets.environment import Environment
from harness.run_sets.output import refuse_output
from harness.system.resources import read_resources
from reference_models.costs import FLOAT_BYTES
from reference_models.process.errors import ConfigError
from reports.text.formatting import rough_duration
from rules.benchmarks.loader import load_benchmark, shipped_names
from rules.benchmarks.seeds import derive_seeds
from rules.errors import DefinitionError
from rules.records.study import StudyRecord


def study_usage(
    path: str, points: Sequence[tuple[str, Mapping[str, Any]]], axis: str | None, *, data: Path | None, output: Path,
    num_processes: int, num_threads: int | None, quiet: bool, seed: int, is_simulated: bool, counting: Counting,
    again: str, num_trained: int | None = None,
) -> tuple[StudyRecord, str]:  # fmt: skip
    """Measure a usage (the models of one application) at every value of the varied key `axis`. Return the study, and
    the reason why no request rate meets all deadlines; the reason is empty if a rate does.

    `points` has each value as text, with the usage's tables at that value. All values are checked before the first is
    measured. At every value the usage is measured `num_processes` times, each time by newly started workers and with
    other arrival times. The study includes the environment check, whose warnings go to standard error, and the load
    of other work on the machine during each measurement. `again` is the command that measures the usage without a
    varied key, for the study's advice.

    If `num_trained` is given, cascades are also judged end to end, at the first value only. A cascade is two models
    of which one filters items and the other ranks the kept ones. Both are trained on `num_trained` samples of the
    same data in each process.

    Raises ConfigError, DefinitionError, DatasetError, OSError, HarnessError.
    """
    refuse_output(output)
    usages = [parse_usage(tables, path) for _, tables in points]
    for usage in usages:
        _refuse_large(path, usage)
    most = max(usage.workers for usage in usages)
    threads = max(1, (num_threads or read_resources().num_cores) // most)
    configs = [_resolve(path, usage, threads) for usage in usages]
    cascades = [] if num_trained is None else find_cascades(usages[0], configs[0])
    for model in (model for usage in usages for model in usage.models.values() if model.source == RETRIEVAL):
        open_retrieval(model, seed)
    served = [
        {
            name: {
                "tables": config.tables,
                "definition_path": str(config.benchmark.path),
                "data_dir": str(prepare_data(KIND, config, data, quiet=quiet).data_dir),
            }
            for name, config in of_point.items()
        }
        for of_point in configs
    ]
    environment, line = Environment.check(data, output), StatusLine(quiet=quiet)
    found: list[list[MeasuredUsage]] = [[] for _ in points]
    seeds = derive_seeds(seed, num_processes)
    began_s, num_done, num_all = time.monotonic(), 0, num_processes * len(points)
    for number, arrivals in enumerate(seeds):
        of = f"process {number} ({number + 1} of {num_processes})"
        with environment.measuring() as watch, Crew(most, threads) as crew:
            for (text, _), usage, its, measured in zip(points, usages, served, found, strict=True):
                at = f"{of}, {axis}={text}" if axis else of
                took_s = time.monotonic() - began_s
                left = f", about {rough_duration(took_s / num_done * (num_all - num_done))} left" if num_done else ""
                line.show(f"{at}: timing models, then scheduling requests{left}", now=True)
                num_done += 1
                share, drawn = Share(number, num_processes), UsageSeeds(seed, arrivals)
                measured.append(
                    measure_usage(crew, text, usage, its, drawn, share, axis=axis, is_simulated=is_simulated)
                )
                watch.look()
    study = make_usage_study(
        found, axis, counting, seed, environment.loads, num_threads=threads, again=again, is_trained=bool(cascades)
    )
    for cascade in cascades:
        assert num_trained is not None
        line.show(f"training {cascade.filter} and {cascade.ranker}, {num_processes} times each", now=True)
        measured_cascade = measure_cascade(cascade, configs[0], served[0], seeds, num_trained, threads * most)
        study = with_cascade(study, cascade, measured_cascade, num_trained)
    line.finish()
    return environment.put_on(study), find_hopeless(found)


def _refuse_large(path: str, usage: Usage) -> None:
    """Raise HarnessError (exit 9) if the weights of the stand-ins (MLPs of given widths) exceed the free memory; each
    worker holds a copy of them."""
    widths = [model.widths or () for model in usage.models.values() if model.source == STAND_IN]
    num_weights = sum((before + 1) * after for each in widths for before, after in pairwise(each))
    asked, available = num_weights * FLOAT_BYTES * usage.workers, read_resources().available_memory_bytes
    if asked > available:
        raise HarnessError(
            f"{path}: the widths of stand-ins ask for {asked:,} bytes on {usage.workers} workers, {available:,} "
            "bytes of memory are free. Ask for less.",
            ExitCode.RESOURCES,
        )


def _resolve(path: str, usage: Usage, num_threads: int) -> dict[str, RunConfig]:
    """Resolve the settings of the benchmarks that a usage (the models of one application) serves. Raises ConfigError
    if a benchmark cannot be served; the message lists those that can be."""
    found = {}
    for name, model in usage.models.items():
        if model.source in (RETRIEVAL, STAND_IN):
            continue
        asked = {
            "serve.scenario": "single_stream",
            "serve.queries": f"fixed:{model.items}",
            "serve.threads": 1,
            "runtime.threads": num_threads,
        }
        settings = {**model.settings, **asked}
        overrides = [Override(key=key, value=value, source=f"{path}: {name}") for key, value in settings.items()]
        try:
            found[name] = resolve_served(model.source, overrides, None)
            refuse_unservable(found[name].workload)
        except (ConfigError, DefinitionError, HarnessError) as error:
            known = [each for each in shipped_names() if has_implementation(load_benchmark(each))]
            raise ConfigError(
                f"{path}: {name}.source is {model.source!r:.80}, which cannot be served: {error} Those that can: "
                f"{RETRIEVAL}, {STAND_IN}, {', '.join(known)}, or a definition's file."
            ) from None
    return found
