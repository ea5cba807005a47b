"""Prepare an experiment before its folder is made: each configuration's dataset, id map and autotuning.

Writes only into the folders of datasets.
"""

from collections.abc import Mapping, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from msgspec.structs import replace as change

from harness.autotune.choices import find_candidates
from harness.autotune.id_maps import ensure_id_map
from harness.autotune.precision import settle_precision, tell_of_bf16
from harness.autotune.tuning import Preparation, autotune
from harness.config.matmul import GivenMatmul, as_choice
from harness.config.run_config import RunConfig, command_name
from harness.config.synthetic import hold_in_memory
from harness.experiment.experiment import Configuration, Experiment
from harness.experiment.relation import find_relation
from harness.experiment.sides import Source
from harness.foundation.errors import HarnessError, first_line
from harness.foundation.status_line import StatusLine
from harness.measure.kinds import Kind
from harness.measure.refusals import refuse_restores
from harness.run_sets.dataset import dataset_record, ensure_dataset, find_recorded, refuse_other_data
from harness.run_sets.environment import refuse_disturbed_environment
from harness.run_sets.folder import given_fields
from harness.run_sets.installation import ask_installation
from harness.run_sets.output import refuse_output
from harness.run_sets.progress import generation_progress
from harness.system.resources import read_resources
from reference_models.data.registry import open_dataset
from rules.records.experiment import FailureRecord
from rules.records.run_set import ChoiceRecord


def prepare(experiment: Experiment) -> Experiment:
    """Return the experiment with the configurations' datasets and autotuning ready, and with its options, such as a
    number of samples, adjusted to the sizes of the datasets.

    In a sweep or a suite, a configuration that cannot be prepared is left out, and the others go on. In other
    experiments the configuration's HarnessError, DatasetError or OSError is raised.
    """
    request = experiment.request
    refuse_output(request.output)
    if request.strict_env:
        refuse_disturbed_environment(request.data, request.output)
    if experiment.source is not None:
        configurations = _prepare_sides(experiment, experiment.source)
    else:
        configurations = _prepare_alike(experiment)
    made = [(each.config, each.prepared) for each in configurations if each.prepared is not None]
    return replace(experiment, configurations=configurations, options=_fit_options(experiment, made))


def _fit_options(experiment: Experiment, made: Sequence[tuple[RunConfig, Preparation]]) -> Mapping[str, int]:
    """Return the options of the measurement, such as a number of samples, adjusted to the sizes of the datasets.

    Raises ConfigError where they cannot be adjusted, or where fewer checkpoints are made than are to be restored.
    """
    sizes = [prepared.size for _, prepared in made]
    sizes += [(size, num_samples) for _, num_samples in sizes for size in experiment.batch_sizes]
    options = experiment.kind.fit(experiment.options, sizes)
    if "restores" in experiment.kind.takes:
        for config, prepared in made:
            refuse_restores(config.workload.checkpoint, options["num_samples"], prepared.size[1])
    return options


def _refuse_restores_untimed(experiment: Experiment) -> None:
    """Raise ConfigError, before autotuning times anything, if a run would make fewer checkpoints than it is to
    restore. If the data cannot be prepared, do nothing: a later step reports that."""
    configs = [each.config for each in experiment.configurations]
    if not any(config.workload.checkpoint and config.workload.checkpoint.restores for config in configs):
        return
    request, made = experiment.request, list[tuple[RunConfig, Preparation]]()
    for config in configs:
        with suppress(HarnessError):
            made.append((config, prepare_data(experiment.kind, config, request.data, quiet=request.quiet)))
    _fit_options(experiment, made)


def prepare_data(kind: Kind, config: RunConfig, data_root: Path | None, *, quiet: bool) -> Preparation:
    """Make or find a configuration's dataset and its id map (from ids to embedding rows); return both with the number
    of threads, the global batch size and the number of training samples.

    Raises DatasetError; HarnessError where the dataset has less than one batch, or its map is damaged.
    """
    workload = config.workload
    num_threads = workload.runtime.threads or max(1, read_resources().num_cores // kind.num_processes(config))
    with generation_progress(workload.data, quiet=quiet) as on_progress:
        folder = ensure_dataset(
            workload.data,
            data_root,
            num_threads=num_threads,
            on_progress=on_progress,
            benchmark=command_name(config.benchmark),
        )
    num_samples = open_dataset(folder, hold_in_memory(workload, 1).data).train.num_samples
    batch_size = workload.train.global_batch_size
    if batch_size > num_samples:
        raise HarnessError(
            f"train.global_batch_size is {batch_size}, but {folder} has only {num_samples} training samples. "
            "Use a smaller batch."
        )
    return Preparation(
        data_dir=folder,
        num_threads=num_threads,
        size=(batch_size, num_samples),
        id_map_sha256=ensure_id_map(config, folder, quiet=quiet),
    )


def _prepare_alike(experiment: Experiment) -> tuple[Configuration, ...]:
    """Prepare the dataset and the autotuning of each configuration. Threads and kernels are timed only once for
    configurations that may share a choice (of equal shape, batch size, precision, …)."""
    request, kind, relation = experiment.request, experiment.kind, find_relation(experiment.relation)
    _refuse_restores_untimed(experiment)
    known: MutableMapping[str, ChoiceRecord] = {}
    found: list[Configuration] = []
    hints: dict[str | None, None] = {}
    for each in experiment.configurations:
        try:
            prepared = prepare_data(kind, each.config, request.data, quiet=request.quiet)
            config, prepared = _settle(experiment, each.config, prepared, known)
            if experiment.is_autotuned:
                prepared = autotune(config, prepared, known=known, given=experiment.matmul, quiet=request.quiet)
                hints[tell_of_bf16(each.config, prepared.data_dir)] = None
        except HarnessError as error:
            if relation.on_failure == "stop" or (relation.needs_first and not found):
                raise
            failure = FailureRecord(reason=first_line(error), exit_code=int(error.exit_code), run_index=None)
            found.append(replace(each, failure=failure))
        else:
            found.append(replace(each, config=config, prepared=prepared))
    for hint in filter(None, hints):
        StatusLine(quiet=request.quiet).finish(f"hint: {hint}")
    return tuple(found)


def _settle(
    experiment: Experiment, config: RunConfig, prepared: Preparation, known: MutableMapping[str, ChoiceRecord]
) -> tuple[RunConfig, Preparation]:
    """Return a configuration and its preparation with the precision `auto` replaced by bf16 or fp32, as timing on
    this system decides, and print the reason; both unchanged for any other precision."""
    request = experiment.request

    def find_choice(in_bf16: RunConfig) -> ChoiceRecord | None:
        is_timed = experiment.is_autotuned
        return autotune(in_bf16, prepared, known=known, quiet=request.quiet).choice if is_timed else None

    config, why = settle_precision(config, find_choice)
    if why is not None and request.run_index is None:  # else each of several ranks would print it
        StatusLine(quiet=request.quiet).finish(f"precision: {why}")
    return config, replace(prepared, precision=why)


def _prepare_sides(experiment: Experiment, source: Source) -> tuple[Configuration, ...]:
    """Prepare both configurations of a pair. The base is prepared with the data and the settings of its existing run
    set. Where another interpreter is given, the base is measured by that interpreter's dlrmbench."""
    request, kind = experiment.request, experiment.kind
    base, new = experiment.configurations
    if request.python is not None:
        given = given_fields(source.record)
        config = base.config
        base = replace(base, installation=ask_installation(request.python, config.benchmark, config.tables, given))
    of_base, of_new = (_prepare_side(experiment, source, each.config) for each in (base, new))
    _fit_options(experiment, [(base.config, of_base), (new.config, of_new)])
    config, of_new = _settle(experiment, new.config, of_new, {})
    base, new = replace(base, prepared=of_base), replace(new, config=config, prepared=of_new)
    return (
        _autotune_sides(source, base, new, experiment.matmul, quiet=request.quiet)
        if kind.is_autotuned
        else (base, new)
    )


def _prepare_side(experiment: Experiment, source: Source, config: RunConfig) -> Preparation:
    """Make or find the dataset of one configuration of a pair. If the configuration has the same data as the existing
    run set, and the user gave no folder, the dataset is the one that the run set recorded. Raises DatasetError if the
    recorded dataset no longer exists. Raises HarnessError if the folder now holds other data than the run set
    used."""
    request, recorded = experiment.request, source.record.dataset
    root = request.data
    is_alike = config.workload.data == source.config.workload.data
    if root is None and is_alike:
        root = find_recorded(config.workload.data, recorded, source.folder)
    prepared = prepare_data(experiment.kind, config, root, quiet=request.quiet)
    if is_alike:
        found = dataset_record(prepared.data_dir)["dataset_sha256"]
        refuse_other_data(prepared.data_dir, found, recorded, source.folder)
    return prepared


def _autotune_sides(
    source: Source, base: Configuration, new: Configuration, given: GivenMatmul | None, *, quiet: bool
) -> tuple[Configuration, Configuration]:
    """Choose threads and kernels by timing for both configurations of a pair: the base (the existing run set's) and
    the new one. The base keeps the choice that its run set recorded, if that choice is still valid. If one choice is
    valid for both configurations, both get it.

    If no number of threads is given for the new configuration, it gets as many as the base. Otherwise the comparison
    could show only the effect of one thread more or less.
    """
    assert base.prepared is not None and new.prepared is not None
    recorded, of_set = source.record.choice, None
    if recorded is not None and recorded.matmul is not None:
        as_choice(recorded.matmul, f"--beside {source.folder}: choice.matmul")
    if recorded is not None and recorded.matmul is not None and recorded.matmul_source not in (None, "measured"):
        of_set = GivenMatmul(record=recorded.matmul, source=str(recorded.matmul_source))
        asked = [
            find_candidates(config, prepared.data_dir, of_set)
            for config, prepared in ((base.config, base.prepared), (new.config, new.prepared))
        ]
        if given is None and len({candidates and candidates.key for candidates in asked}) == 1:
            given = of_set
    known = {} if recorded is None else {recorded.key: recorded}
    is_able = base.installation is None or base.installation.about.chooses

    prepared = new.prepared

    def tune_new(num_threads: int | None) -> Preparation:
        return autotune(new.config, prepared, known=known, given=given, quiet=quiet, num_threads=num_threads)

    of_new = None if is_able else tune_new(None)  # what it chooses is the base's, too, which cannot choose
    of_base = autotune(
        base.config,
        base.prepared,
        known=known,
        given=of_set if is_able else None,
        installation=base.installation,
        quiet=quiet,
        measure=None if is_able else lambda *asked: "its dlrmbench is too old for that",
    )
    if of_new is None or of_new.num_threads != of_base.num_threads:
        of_new = tune_new(of_base.num_threads)
    if not is_able and of_base.choice is not None:
        of_base = replace(of_base, choice=change(of_base.choice, matmul=None, matmul_source=None))
    return replace(base, prepared=of_base), replace(new, prepared=of_new)
