"""Refuse configurations that cannot run on this system, before anything is written."""

import os
from collections.abc import Sequence
from typing import Literal

from harness.config.catalog import WorkloadConfig, refuse_without_bags
from harness.foundation.errors import ExitCode, HarnessError
from harness.system.launcher_env import launcher_of_many
from harness.system.resources import read_resources
from reference_models.config.checkpoint import CheckpointConfig
from reference_models.config.sections import DataConfig, RuntimeConfig
from reference_models.process.errors import ConfigError
from reference_models.registry import label_of, refuse_impossible_runtime, refuse_impossible_serving

TakenIdMaps = Literal["fixed", "made", "any"]
"""Maps of ids to embedding rows that a measurement allows. "fixed": only maps that do not depend on data. "made":
also maps made of training data. "any": also the map made of the latent classes from which ids were generated."""


def refuse_untrainable(workload: WorkloadConfig) -> None:
    """Refuse to train with a device, implementation, precision or number of threads that this system does not have.

    Raises ConfigError, HarnessError or DeviceError. Imports torch only to look at a requested GPU.
    """
    runtime = workload.runtime
    workload.implementation.require_installed()
    refuse_impossible_runtime(workload.model_name, workload.train, runtime)
    refuse_threads(runtime.threads)
    refuse_device(runtime)


def refuse_checkpoint(workload: WorkloadConfig, *, has_restores: bool) -> None:
    """Raise ConfigError where [checkpoint] cannot be obeyed: the model or the implementation makes no checkpoints,
    the interval is shorter than one batch, or checkpoints are to be restored in a measurement that does not do this.
    """
    if workload.checkpoint is None:
        return
    refuse_without_bags(workload, "checkpoint")
    if workload.implementation.refuse_ranks is not None:
        raise ConfigError(
            f"checkpoint: implementation {label_of(workload.runtime.implementation)!r} spreads rows of tables over "
            "ranks, none of which has all changed rows. Take an implementation that trains in one process."
        )
    samples, every = workload.data.train_samples, workload.checkpoint.every
    if samples is not None or isinstance(every, int):
        interval, batch = workload.checkpoint.interval(samples or 0), workload.train.global_batch_size
        if interval < batch:
            raise ConfigError(
                f"checkpoint.every is {every!r}, {interval} samples: less than a batch of {batch}. Give more, or a "
                "share of the epoch such as 5%."
            )
    if workload.checkpoint.restores and not has_restores:
        raise ConfigError(
            "checkpoint.restores is for --quality SAMPLES alone: after a failure, MLPerf's rules ask for a fresh "
            "start. Give --quality SAMPLES, or leave checkpoint.restores out."
        )


def refuse_restores(checkpoint: CheckpointConfig | None, num_samples: int, train_samples: int) -> None:
    """Raise ConfigError where training `num_samples` makes fewer checkpoints than [checkpoint] asks to restore."""
    if checkpoint is None:
        return
    num_taken = num_samples // checkpoint.interval(train_samples)
    if checkpoint.restores > num_taken:
        share = f" of an epoch of {train_samples}" if isinstance(checkpoint.every, str) else ""
        raise ConfigError(
            f"checkpoint.restores is {checkpoint.restores}, but checkpoint.every={checkpoint.every}{share} "
            f"samples saves {num_taken} times in {num_samples}. Ask for fewer restores, or more checkpoints."
        )


def refuse_unservable(workload: WorkloadConfig) -> None:
    """Refuse a model that cannot be served here, on the requested device and CPUs. Raises the errors of
    `refuse_untrainable`."""
    workload.implementation.require_installed()
    refuse_impossible_serving(workload.model_name, workload.runtime)
    refuse_threads(workload.runtime.threads)
    refuse_device(workload.runtime)


def refuse_id_map(data: DataConfig, taken: TakenIdMaps) -> None:
    """Raise ConfigError if the data's map of ids to embedding rows is one that the measurement does not allow;
    `taken` says which maps it allows."""
    id_map = data.id_map
    if not id_map.looks_at_data or taken == "any" or (taken == "made" and id_map.kind != "classes"):
        return
    where, known = "--quality SAMPLES", "none, hash, quotient_remainder"
    if id_map.kind == "classes":
        why = "is a control that knows more than a map made of data can"
    else:
        why, where = "is made of the training split outside the timed region", f"{where}, 'serve' and 'trace'"
    known += ", frequency, learned" if taken == "made" else ""
    raise ConfigError(
        f"id_map.kind is {id_map.kind!r}, which {why}: it is for {where} alone. Expected here: {known}."
    )


def refuse_device(runtime: RuntimeConfig) -> None:
    """Raise DeviceError for a device that this machine lacks, and for more ranks on this machine than it has GPUs.

    Ranks that a launcher has started are checked when they begin: they may be on several machines.
    """
    if runtime.device != "cpu":
        from reference_models.training.devices import refuse_shared_gpus  # imports torch

        refuse_shared_gpus(runtime.device, 1 if launcher_of_many(os.environ) else runtime.ranks)


def refuse_threads(num_threads: int | None) -> None:
    """Raise HarnessError for more threads than this process has CPUs to use."""
    num_cpus = read_resources().num_affinity_cpus
    if num_threads is not None and num_threads > num_cpus:
        raise HarnessError(
            f"runtime.threads is {num_threads}, but this process may use {num_cpus} CPUs. "
            f"More threads than CPUs wait for one another; give at most {num_cpus}."
        )


def refuse_unprofilable(workload: WorkloadConfig) -> None:
    """Raise HarnessError for an implementation that does not report the phases of its training step."""
    if workload.implementation.reports_phases:
        return
    others = [repr(name) for name, other in workload.model_spec.implementations.items() if other.reports_phases]
    name = label_of(workload.runtime.implementation)
    raise HarnessError(
        f"implementation {name!r} does not report its phases and cannot be profiled. "
        + (f"Use {' or '.join(others)}." if others else "")
    )


def refuse_unfittable(workloads: Sequence[WorkloadConfig]) -> None:
    """Raise HarnessError (exit 7) if no scaling law (a power law of model size) can be fitted: there are too few
    model sizes, or the ratio of the largest to the smallest is too small.

    The size of a model is measured by its training FLOP per sample. This suffices because all models train on equally
    many samples.
    """
    from reports.statistics.power_law import why_no_law  # processes that train do not need it

    # FLOP do not depend on the tables' rows, which may be known to prepared data alone.
    flop = [each.costs([1] * each.data.num_sparse).training_flop_per_sample for each in workloads]
    if (why := why_no_law([float(value) for value in flop])) is not None:
        axis = workloads[0].model_spec.scaling_axis if workloads else ""
        such_as = f", such as --axis {axis}" if axis else ""
        raise HarnessError(
            f"--fit: no scaling law can be fitted to {why} (per sample). Vary what makes the model larger{such_as}.",
            ExitCode.INCONCLUSIVE,
        )
