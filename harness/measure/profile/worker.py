"""Measure a profile in one process: build the workload, time its training steps, measure this system's ceilings."""

from pathlib import Path

import numpy as np
import torch

from harness.config.synthetic import hold_in_memory
from harness.measure.clock import Clock
from harness.measure.kinds import Job, OnEvent
from harness.measure.profile.analysis import analyse_phases, analyse_step, compute_ceilings, join_replayed
from harness.measure.profile.measure_ceilings import measure_ceilings
from harness.measure.profile.operators import profile_operators
from harness.measure.profile.steps import measure_steps
from harness.measure.read_data import refuse_other_data
from harness.system.resources import read_resources
from reference_models.data.registry import open_dataset
from reference_models.data.store.dataset import OpenedDataset
from reference_models.process.errors import ConfigError
from reference_models.process.world import World
from reference_models.registry import label_of
from reference_models.training.devices import find_device
from reference_models.training.phases import ReportsPhases
from reference_models.training.workload import Workload
from rules.records.profile import (
    ComputedEvaluation,
    MeasuredEvaluation,
    OperatorsRecord,
    ProfiledEvaluation,
    ProfileRecord,
    StepRecord,
)

_NUM_BATCHES = 4
_HELD_STEPS = 50
"""Number of training steps for which synthetic data is held in memory; real data is read as in a run."""


def profile(
    spec: Job, world: World, on_event: OnEvent, *, num_steps: int | None, trace: Path | None
) -> ProfileRecord:
    """Measure a profile of a training step and return the content of profile.json. Training steps are timed first,
    when the workload is in the same state as a run's is after its warm-up."""
    benchmark, workload_config = spec.parse()
    config = hold_in_memory(workload_config, _HELD_STEPS)
    model = config.model_spec
    name = label_of(config.runtime.implementation)
    built_from = spec.spec(config)
    workload = config.implementation.load(built_from, world)
    if not isinstance(workload, ReportsPhases):
        raise ConfigError(
            f"implementation {name!r} does not report its phases and cannot be profiled. Use 'reference'."
        )

    def report(doing: str) -> None:
        on_event({"event": "progress", "doing": doing})

    report("building")
    workload.build()
    device, batch_size = find_device(config.runtime.device), workload.global_batch_size
    report("timing steps")
    times = measure_steps(workload, device, num_steps)
    report("evaluating")
    dataset = open_dataset(built_from.data_dir, built_from.data)
    evaluation = measure_evaluation(workload, config.costs(dataset.eval.num_embeddings).forward_flop_per_sample)
    report("running torch.profiler")
    operators = profile_operators(workload, device, step_s=times.step_s, trace=trace)
    report("measuring ceilings")
    ids = read_ids(dataset, batch_size)
    products = model.costs.matmuls(config.model, config.data.mapped, batch_size)
    ceilings = compute_ceilings(
        measure_ceilings(
            products,
            batches_ids=ids,
            num_embeddings=dataset.train.num_embeddings,
            multi_hot=dataset.train.multi_hot,
            embedding_dim=config.costs(dataset.train.num_embeddings).row_width,
            device=device,
            dtype=torch.bfloat16 if config.runtime.precision == "bf16" else torch.float32,
            available_bytes=available_bytes(device),
        )
    )
    unique_rows, times_s = count_unique_rows(ids, dataset.train.multi_hot), times.phase_times_s()
    costs = model.costs.phases(
        config.model,
        config.data.mapped,
        batch_size=batch_size,
        opt_name=config.train.opt_name,
        unique_rows=unique_rows,
        entered=times_s,
    )
    refuse_other_data(workload, dataset, world, on_event)
    costs, products = join_replayed(times_s, costs, products)
    phases = analyse_phases(times_s, costs, products, ceilings, model.phases)
    return ProfileRecord(
        benchmark=benchmark.name,
        definition_sha256=benchmark.definition_sha256,
        implementation=name,
        device=str(device),
        precision=config.runtime.precision,
        num_threads=torch.get_num_threads(),
        global_batch_size=batch_size,
        unique_rows_per_step=unique_rows,
        hyperparameters=dict(workload.hyperparameters()),
        step=StepRecord(
            measured=times.measured(batch_size),
            computed=analyse_step(times.step_s, phases, costs, products, ceilings, batch_size),
        ),
        phases=phases,
        evaluation=evaluation,
        ceilings=ceilings,
        operators=OperatorsRecord(measured=operators),
    )


def available_bytes(device: torch.device) -> int:
    """Return the free bytes of the memory (of the host or a GPU) in which `device` computes."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return read_resources().available_memory_bytes


def measure_evaluation(workload: Workload, flop_per_sample: int) -> ProfiledEvaluation:
    """Return the measured time and rates of one evaluation of the whole evaluation split; an evaluation before it
    warms up."""
    workload.evaluate()
    clock = Clock(workload.synchronize)
    workload.evaluate()
    duration_s, num_samples = clock.elapsed_s(), workload.eval_samples
    flop = flop_per_sample * num_samples
    return ProfiledEvaluation(
        measured=MeasuredEvaluation(
            duration_s=duration_s, num_samples=num_samples, samples_per_s=num_samples / duration_s
        ),
        computed=ComputedEvaluation(matmul_flop=flop, flop_per_s=flop / duration_s),
    )


def read_ids(dataset: OpenedDataset, batch_size: int) -> list[torch.Tensor]:
    """Return the ids [B, lookups] of the first batches of a training split."""
    most = max(1, min(_NUM_BATCHES, dataset.train.num_samples // batch_size))
    return [dataset.train.read(index * batch_size, (index + 1) * batch_size).ids for index in range(most)]


def count_unique_rows(batches_ids: list[torch.Tensor], multi_hot: tuple[int, ...]) -> int:
    """Return the number of distinct embedding rows that one batch looks up in all tables, on average over the
    batches."""
    found = [
        sum(np.unique(part.numpy()).size for part in torch.split(ids, list(multi_hot), dim=1)) for ids in batches_ids
    ]
    return round(sum(found) / len(found))
