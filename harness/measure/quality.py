"""Measure model quality: train on a fixed number of samples in one fresh process, and evaluate after parts of them.
The result is never a score."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from harness.config.run_config import Override, RunConfig, resolve
from harness.config.synthetic import refuse_reshaped_data
from harness.measure.clock import Clock
from harness.measure.companions import measuring
from harness.measure.kinds import Job, Kind, OnEvent, Option, Work
from harness.measure.throughput import MIN_PROCESSES, describe_costs, train_steps
from reference_models.process.errors import ConfigError
from reference_models.process.world import World
from reference_models.training.metrics import find_metric
from reference_models.training.workload import EvaluatesMetrics
from rules.records.codec import VERSION, convert
from rules.records.measured.quality import QualityProcess, QualityRecord
from rules.records.metrics import metric_of

SHARES = (1 / 4, 1 / 2, 1)
"""Fractions of the training steps after which the whole evaluation split is evaluated."""


@dataclass(frozen=True, kw_only=True, slots=True)
class QualityJob(Job):
    """Job that measures model quality in one process."""

    num_samples: int
    """Number of samples to train on, which is a multiple of the batch size of each compared configuration."""


def train_and_evaluate(job: QualityJob, world: World, on_event: OnEvent) -> QualityRecord | None:
    """Train on each sample once and evaluate after each of the fractions `SHARES` of the steps; return the record on
    rank 0, None elsewhere.

    Raises NotFiniteError when training diverges.
    """
    with measuring(job, world, on_event, QualityProcess, num_samples=job.num_samples) as process:
        workload, dataset, config = cast(EvaluatesMetrics, process.workload), process.dataset, process.config
        workload.build()
        clock = Clock(workload.synchronize)
        num_steps = job.num_samples // workload.global_batch_size
        metric, member = find_metric(config.model_spec.metric), metric_of(config.model_spec.metric).member
        process.start()
        done, num_samples, train_s = 0, 0, 0.0
        evaluations: list[dict[str, Any]] = []
        for until in sorted({max(1, round(share * num_steps)) for share in SHARES}):
            start_s = clock.elapsed_s()
            num_samples += train_steps(workload.train, until - done)
            done, train_s = until, train_s + clock.elapsed_s() - start_s
            start_s = clock.elapsed_s()
            metrics = asdict(workload.evaluate_with(metric.measure))
            evaluations.append({"samples_count": num_samples, "duration_s": clock.elapsed_s() - start_s, **metrics})
            on_event({"event": "eval", "epoch_num": num_samples / workload.train_samples, "quality": metrics[member]})
        process.stop()
        hyperparameters = dict(workload.hyperparameters())
    if world.rank != 0:
        return None
    costs = config.costs(dataset.train.num_embeddings)
    measured = {
        "num_samples": num_samples,
        "training_flop": costs.training_flop_per_sample * num_samples,
        "train_s": train_s,
        "evaluations": evaluations,
        "hyperparameters": hyperparameters,
    }
    content = {
        "schema_version": VERSION,
        "data_kind": config.data.kind,
        "dataset_sha256": dataset.dataset_sha256,
        "eval_samples": workload.eval_samples,
        "computed": describe_costs(costs),
        "processes": [process.members | measured],
    }
    return convert(content, QualityRecord)


def fit_samples(options: Mapping[str, int], sizes: Sequence[tuple[int, int]]) -> Mapping[str, int]:
    """Return the number of samples on which every configuration trains. It is the requested number, rounded up such
    that the samples are whole batches in each configuration.

    Raises ConfigError if the training split of a configuration holds fewer samples.
    """
    asked, multiple = options["num_samples"], math.lcm(*(batch_size for batch_size, _ in sizes))
    num_samples = -(-asked // multiple) * multiple
    least = min((train_samples for _, train_samples in sizes), default=num_samples)
    if num_samples > least:
        raise ConfigError(
            f"--quality {asked}: whole batches of all configurations are {num_samples} samples (multiples of "
            f"{multiple}), but the training split holds {least}. Give at most {least // multiple * multiple}."
        )
    return {"num_samples": num_samples}


class QualityKind(Kind):
    """Measurement of model quality after training on a number of samples; refuses synthetic data, from which nothing
    can be learnt."""

    def resolve(self, benchmark: str | Path, overrides: Iterable[Override], label: str | None) -> RunConfig:
        return resolve(
            benchmark,
            overrides,
            label,
            derived_suffix=self.derived_suffix,
            reshape=refuse_reshaped_data,
            sections=self.sections,
        )

    def fit(self, options: Mapping[str, int], sizes: Sequence[tuple[int, int]]) -> Mapping[str, int]:
        return fit_samples(options, sizes)

    def work(self, options: Mapping[str, int], config: RunConfig, sizes: tuple[int, int] | None) -> Work | None:
        if sizes is None:
            return None
        num_steps = -(-options["num_samples"] // config.workload.train.global_batch_size)
        return Work(num_steps=num_steps, num_evals=len(SHARES), eval_samples=sizes[1])


KIND = QualityKind(
    name="quality",
    job=QualityJob,
    record=QualityRecord,
    run=train_and_evaluate,
    min_repetitions=MIN_PROCESSES,
    takes=frozenset({"with_fit", "restores"}),
    sections=("checkpoint",),
    takes_id_maps="any",
    option=Option(
        verbs=("run", "sweep"),
        member="num_samples",
        unit="SAMPLES",
        help="Measure quality and log loss after training on SAMPLES samples, in at least 5 processes, instead of "
        "the time to train; any configuration key may be changed.",
    ),
)
