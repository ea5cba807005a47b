"""What is served: a pool of queries and the model that ranks their items."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.config.catalog import WorkloadConfig
from harness.config.serving import ServeConfig, list_sizes
from harness.config.synthetic import hold_in_memory
from harness.measure.kinds import Job
from harness.measure.serving.worker_pool import QueryPart
from harness.measure.throughput import train_steps
from harness.measure.weights import read_weights
from reference_models.process.errors import ConfigError
from reference_models.process.world import SingleProcess
from reference_models.registry import build_servable
from reference_models.serving.quality_ratio import compare_quality
from reference_models.serving.queries import cut, merge
from reference_models.serving.servable import Servable, Weights, workload_weights
from reference_models.training.workload import WorkloadSpec
from rules.benchmarks.loader import Benchmark
from rules.records.measured.serve import ServedQuality

if TYPE_CHECKING:
    import torch

MIN_POOL = 64


@dataclass(frozen=True, kw_only=True, slots=True)
class ServedModel:
    """A model that is ready to answer, and the queries that it is asked."""

    servable: Servable
    sizes: tuple[int, ...]
    pool: tuple[Any, ...]
    """Batches of the model's own kind."""

    def answer(self, parts: Sequence[QueryPart]) -> "torch.Tensor":
        """Score the items of queries of the pool, or of parts of them, in one call: `Servable.answer`."""
        return self.servable.answer(merge([self._cut(part) for part in parts]))

    def _cut(self, part: QueryPart) -> Any:
        query = self.pool[part.place]
        return query if part.items == self.sizes[part.place] else cut(query, part.start, part.stop)


def pool_sizes(queries: str) -> tuple[int, ...]:
    """Return the items of the queries of a pool: each size of the distribution, at least 64 queries in all."""
    sizes = list_sizes(queries)
    return sizes * -(-MIN_POOL // len(sizes))


def load_weights(serve: ServeConfig, config: WorkloadConfig, spec: WorkloadSpec, sha256: str) -> Weights | None:
    """Read the kept weights of a run, or train the samples that are asked for; None for random weights.

    Raises HarnessError for weights that are damaged or another definition's.
    """
    if serve.weights is not None:
        return read_weights(Path(serve.weights), sha256).tensors
    if serve.train_samples is None:
        return None
    fp32 = replace(spec, runtime=replace(spec.runtime, precision="fp32", table_precision="fp32"))
    workload = config.implementation.load(fp32, SingleProcess())
    workload.build()
    num_steps = -(-serve.train_samples // workload.global_batch_size)
    if num_steps * workload.global_batch_size > workload.train_samples:
        raise ConfigError(
            f"serve.train_samples is {serve.train_samples}, but the training split holds {workload.train_samples} "
            f"samples in batches of {workload.global_batch_size}. Train fewer."
        )
    train_steps(workload.train, num_steps)
    return workload_weights(workload)


def build_served(
    job: Job, benchmark: Benchmark, config: WorkloadConfig, serve: ServeConfig, *, with_quality: bool
) -> tuple[ServedModel, ServedQuality | None]:
    """Build what is served, whose workers share the CPU threads, and find its quality where that is asked for.

    Quality is that of weights that were trained; random ones have none.
    """
    sizes = pool_sizes(serve.queries)
    num_samples = max(sum(sizes), serve.train_samples or 0)
    config = hold_in_memory(config, -(-num_samples // config.train.global_batch_size))
    num_threads = max(1, (config.runtime.threads or 1) // serve.threads)
    config = replace(config, runtime=replace(config.runtime, threads=num_threads))
    spec = job.spec(config)
    weights = load_weights(serve, config, spec, benchmark.definition_sha256)
    servable = build_servable(config.model_name, spec, weights)
    served = ServedModel(servable=servable, sizes=sizes, pool=tuple(servable.queries(sizes)))
    quality = _quality(config, spec, servable, weights) if weights is not None and with_quality else None
    return served, quality


def _quality(
    config: WorkloadConfig, spec: WorkloadSpec, servable: Servable, weights: Weights
) -> ServedQuality | None:
    found = servable.quality()
    if found is None:
        return None
    fp32, runtime = found, replace(spec.runtime, precision="fp32", table_precision="fp32")
    if runtime != spec.runtime:
        fp32 = build_servable(config.model_name, replace(spec, runtime=runtime), weights).quality() or found
    ratio = compare_quality(found, fp32)
    # MLPerf Inference's classes are DLRM's, in precisions that only a servable of its own has.
    mlperf_class = None if config.model_spec.serve is None else ratio.mlperf_class
    values = {**asdict(found), **asdict(ratio), "mlperf_class": mlperf_class}
    return ServedQuality(**{name: values[name] for name in ServedQuality.__struct_fields__ if name in values})
