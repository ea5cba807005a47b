"""Build a served model with its pool of queries, which are sets of items (candidates) to rank, and measure its
quality."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.config.catalog import WorkloadConfig
from harness.config.synthetic import hold_in_memory
from harness.extensions.serving.config import MIN_LIBRARY, ServeConfig, library_sizes, list_sizes, whole_split
from harness.extensions.serving.records import ServedQuality
from harness.extensions.serving.worker_pool import QueryPart
from harness.foundation.errors import ExitCode, HarnessError
from harness.measure.checkpoints import read_checkpoint
from harness.measure.id_maps import read_id_maps
from harness.measure.kinds import Job
from harness.measure.throughput import train_steps
from harness.measure.weights import read_weights
from harness.system.resources import read_resources
from reference_models.data.registry import open_dataset
from reference_models.data.synthetic.config import count_bytes_per_sample
from reference_models.process.errors import ConfigError
from reference_models.process.world import SingleProcess
from reference_models.registry import build_servable
from reference_models.serving.quality_ratio import compare_quality
from reference_models.serving.queries import cut, merge
from reference_models.serving.servable import Servable, Weights, workload_weights
from reference_models.training.workload import WorkloadSpec
from rules.benchmarks.loader import Benchmark
from rules.records.kept.checkpoint import CHECKPOINTS_FOLDER

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, kw_only=True, slots=True)
class ServedModel:
    """A built model that is ready to answer queries, with the pool of queries that it is asked."""

    servable: Servable
    sizes: tuple[int, ...]
    pool: tuple[Any, ...]
    """Queries of the pool, as batches in the form that the model takes as input."""

    def answer(self, parts: Sequence[QueryPart]) -> "torch.Tensor":
        """Return the model's scores of all items of `parts` (queries or parts of queries), computed by
        `Servable.answer` in one call."""
        return self.servable.answer(merge([self._cut(part) for part in parts]))

    def _cut(self, part: QueryPart) -> Any:
        query = self.pool[part.place]
        return query if part.items == self.sizes[part.place] else cut(query, part.start, part.stop)


def load_weights(serve: ServeConfig, config: WorkloadConfig, spec: WorkloadSpec, sha256: str) -> Weights | None:
    """Read the kept weights in folder serve.weights, or train on serve.train_samples samples; return None for random
    weights.

    Raises HarnessError for weights that are damaged or belong to another benchmark definition.
    """
    if serve.weights is not None:
        folder = Path(serve.weights)
        maps = read_id_maps(config, spec.data_dir)
        map_sha256 = None if maps is None else maps.sha256
        if folder.parent.name != CHECKPOINTS_FOLDER:
            return read_weights(folder, sha256, map_sha256).tensors
        restored = read_checkpoint(folder, sha256, map_sha256).items()
        return {name.removeprefix("model."): weight for name, weight in restored if name.startswith("model.")}
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
    job: Job,
    benchmark: Benchmark,
    config: WorkloadConfig,
    serve: ServeConfig,
    *,
    with_quality: bool,
    has_whole_split: bool = False,
) -> tuple[ServedModel, ServedQuality | None]:
    """Build the served model, whose workers share the CPU threads. If `with_quality`, also measure the model's
    quality; a model without trained weights has none.

    The queries are those of LoadGen's sample library; with `has_whole_split`, they hold every sample of the
    evaluation split once. Raises ConfigError if the split is too small, and HarnessError (exit 9) if the queries do
    not fit into memory.
    """
    round_of = list_sizes(serve.queries)
    num_asked = -(-(serve.library or MIN_LIBRARY) // len(round_of)) * sum(round_of)
    num_samples = max(num_asked, serve.train_samples or 0)
    config = hold_in_memory(config, -(-num_samples // config.train.global_batch_size))
    num_threads = max(1, (config.runtime.threads or 1) // serve.num_workers)
    config = replace(config, runtime=replace(config.runtime, threads=num_threads))
    spec = job.spec(config)
    num_eval = open_dataset(spec.data_dir, spec.data).eval.num_samples
    sample_bytes = count_bytes_per_sample(spec.data.mapped)
    whole = whole_split(serve.queries, num_eval) if has_whole_split else None
    sizes = whole or library_sizes(serve, num_eval, sample_bytes)
    _refuse_large(sum(sizes) * sample_bytes)
    weights = load_weights(serve, config, spec, benchmark.definition_sha256)
    servable = build_servable(config.model_name, spec, weights)
    served = ServedModel(servable=servable, sizes=sizes, pool=tuple(servable.queries(sizes)))
    quality = _quality(config, spec, servable, weights) if weights is not None and with_quality else None
    return served, quality


def _refuse_large(num_bytes: int) -> None:
    available = read_resources().available_memory_bytes
    if num_bytes > available:
        raise HarnessError(
            f"the sample library takes {num_bytes:,} bytes, {available:,} bytes of memory are free. Ask for fewer "
            "queries (serve.library), or serve on a machine with more memory.",
            ExitCode.RESOURCES,
        )


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
    # MLPerf Inference's classes are DLRM's; only a model with serving code of its own has reduced precisions.
    mlperf_class = None if config.model_spec.serve is None else ratio.mlperf_class
    values = {**asdict(found), **asdict(ratio), "mlperf_class": mlperf_class}
    return ServedQuality(**{name: values[name] for name in ServedQuality.__struct_fields__ if name in values})
