"""A profile: builds the workload, measures ceilings and steps in one process."""

from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
import torch

from harness.config.catalog import WorkloadConfig, parse_workload
from harness.config.synthetic import hold_in_memory
from harness.measure.clock import Clock
from harness.measure.kinds import Job, OnEvent
from harness.measure.profile.analysis import analyse_phases, limit_step
from harness.measure.profile.document import make_document
from harness.measure.profile.measure_ceilings import measure_ceilings
from harness.measure.profile.operators import profile_operators
from harness.measure.profile.steps import ProfiledWorkload, measure_steps
from harness.system.resources import read_resources
from reference_models.data.registry import open_dataset
from reference_models.data.store.dataset import OpenedDataset
from reference_models.process.errors import ConfigError
from reference_models.process.world import World
from reference_models.training.devices import find_device
from reference_models.training.phases import ReportsPhases
from reference_models.training.workload import Workload
from rules.benchmarks.loader import parse_benchmark

_NUM_BATCHES = 4
_HELD_STEPS = 50
"""Batches of made-up data that are held; real data is read as in a run."""


def profile(
    spec: Job, world: World, on_event: OnEvent, *, num_steps: int | None, trace: Path | None
) -> dict[str, Any]:
    """Measure profile.json's content; steps come first, on the workload as a run has it after its warm-up."""
    benchmark = parse_benchmark(spec.tables, Path(spec.definition_path))
    config = hold_in_memory(parse_workload(benchmark, benchmark.sections), _HELD_STEPS)
    workload_spec = config.spec(Path(spec.data_dir), spec.seed)
    name = config.runtime.implementation
    workload = config.implementation.load(workload_spec, world)
    if not is_profilable(workload):
        raise ConfigError(
            f"implementation {name!r} does not tell its phases and cannot be profiled. Use 'reference'."
        )

    def say(doing: str) -> None:
        on_event({"event": "progress", "doing": doing})

    say("building")
    workload.build()
    device = find_device(config.runtime.device)
    say("timing steps")
    times = measure_steps(workload, device, num_steps)
    say("evaluating")
    evaluation = measure_evaluation(workload, config, workload_spec.data_dir)
    say("running torch.profiler")
    operators = profile_operators(workload, device, step_s=times.step_s, trace=trace)
    say("measuring ceilings")
    dataset = open_dataset(workload_spec.data_dir, config.data)
    ids = read_ids(dataset, workload.global_batch_size)
    products = config.model_spec.costs.matmuls(config.model, config.data, workload.global_batch_size)
    ceilings = measure_ceilings(
        products,
        batches_ids=ids,
        num_embeddings=dataset.train.num_embeddings,
        multi_hot=dataset.train.multi_hot,
        embedding_dim=config.costs(dataset.train.num_embeddings).row_width,
        device=device,
        dtype=torch.bfloat16 if config.runtime.precision == "bf16" else torch.float32,
        available_bytes=read_resources().available_memory_bytes,
    )
    unique_rows = count_unique_rows(ids, dataset.train.multi_hot)
    counts = config.model_spec.costs.phases(
        config.model,
        config.data,
        batch_size=workload.global_batch_size,
        opt_name=config.train.opt_name,
        unique_rows=unique_rows,
        entered=times.phase_times_s(),
    )
    phases = analyse_phases(times.phase_times_s(), counts, products, ceilings, config.model_spec.phases)
    return make_document(
        {
            "benchmark": benchmark.name,
            "definition_sha256": benchmark.definition_sha256,
            "implementation": name,
            "device": str(device),
            "precision": config.runtime.precision,
            "num_threads": torch.get_num_threads(),
            "global_batch_size": workload.global_batch_size,
            "unique_rows_per_step": unique_rows,
            "hyperparameters": dict(workload.hyperparameters()),
        },
        times=times,
        phases=phases,
        labels=config.model_spec.phases,
        counts=counts,
        products=products,
        limits=limit_step(phases, products, ceilings),
        ceilings=ceilings,
        operators=operators,
        evaluation=evaluation,
    )


def is_profilable(workload: Workload) -> TypeGuard[ProfiledWorkload]:
    return isinstance(workload, ReportsPhases)


def measure_evaluation(workload: Workload, config: WorkloadConfig, data_dir: Path) -> dict[str, Any]:
    """One evaluation of the whole split after one that warms up."""
    workload.evaluate()
    clock = Clock(workload.synchronize)
    workload.evaluate()
    duration_s = clock.elapsed_s()
    num_embeddings = open_dataset(data_dir, config.data).eval.num_embeddings
    per_sample = config.costs(num_embeddings).forward_flop_per_sample
    flop = per_sample * workload.eval_samples
    return {
        "measured": {
            "duration_s": duration_s,
            "num_samples": workload.eval_samples,
            "samples_per_s": workload.eval_samples / duration_s,
        },
        "computed": {"matmul_flop": flop, "flop_per_s": flop / duration_s},
    }


def read_ids(dataset: OpenedDataset, batch_size: int) -> list[torch.Tensor]:
    """Ids [B, lookups] of the first batches."""
    most = max(1, min(_NUM_BATCHES, dataset.train.num_samples // batch_size))
    return [dataset.train.read(index * batch_size, (index + 1) * batch_size).indices for index in range(most)]


def count_unique_rows(batches_ids: list[torch.Tensor], multi_hot: tuple[int, ...]) -> int:
    """Rows of all tables that one batch's ids name, on average over the batches."""
    found = [
        sum(np.unique(part.numpy()).size for part in torch.split(ids, list(multi_hot), dim=1)) for ids in batches_ids
    ]
    return round(sum(found) / len(found))
