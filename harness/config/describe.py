"""Describe benchmarks for `list` and `show`, as plain JSON values. Imports no torch."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from harness.config.catalog import WorkloadConfig, has_implementation, parse_workload
from harness.config.sections import sections_of_problem
from reference_models.config.sections import DataConfig
from reference_models.data.registry import compute_dataset_digest
from reference_models.registry import pin_code
from rules.benchmarks.loader import Benchmark, load_benchmark, shipped_versions

_SIZES = (
    "num_parameters",
    "num_embedding_rows",
    "num_lookups_per_sample",
    "embedding_bytes_per_sample",
    "forward_flop_per_sample",
    "training_flop_per_sample",
    "embedding_bytes",
)


def summarize_benchmark(name: str) -> dict[str, Any]:
    """Return a description of a shipped benchmark or workload in one line; a workload has None for target and
    runs."""
    benchmark = load_benchmark(name)
    quality, score = benchmark.stated_quality, benchmark.stated_score
    return {
        "name": benchmark.name,
        "status": benchmark.status,
        "quality_target": None if quality is None else quality.target,
        "num_runs": None if score is None else score.num_runs,
        "data_kind": benchmark.sections["data"].get("kind"),
        "title": benchmark.title,
        "version": benchmark.version,
        "older_versions": [older.version for older in shipped_versions(benchmark.name)[:-1]],
    }


def describe_benchmark(name_or_path: str, model: str | None = None) -> dict[str, Any]:
    """Return a benchmark's resolved definition, with the model's size, the evaluation cadence and the memory needed.
    Values that depend on prepared data are None.

    `model` is the file with the benchmark's model, if the model is a user's own. An official benchmark without an
    implementation in dlrmbench is described by the contents of its definition file, without a model size. Raises
    DefinitionError, which names the file and the field, if the definition is invalid.
    """
    benchmark = load_benchmark(name_or_path)
    if benchmark.status == "official" and not has_implementation(benchmark):
        data, train = benchmark.sections["data"], benchmark.sections["train"]
        cadence = _cadence(benchmark, data.get("train_samples"), train.get("global_batch_size"))
        return {**_describe_problem(benchmark), **benchmark.sections, "cadence": cadence, "size": None}
    workload = parse_workload(benchmark, benchmark.sections, None if model is None else pin_code(model))
    return _describe_problem(benchmark) | {
        "notes": [*benchmark.notes, *workload.model_spec.notes],
        "model": asdict(workload.model),
        "data": _describe_data(workload.data)
        | {"dataset": f"{workload.data.name}-{compute_dataset_digest(workload.data)}"},
        **{
            section.name: asdict(section.read(benchmark.sections[section.name]))
            for section in sections_of_problem()
            if section.name in benchmark.sections
        },
        "train": {key: value for key, value in asdict(workload.train).items() if key != "optimizer"}
        | dict(workload.train.optimizer),
        "runtime": {key: "auto" if value is None else value for key, value in asdict(workload.runtime).items()},
        "cadence": _cadence(benchmark, workload.data.train_samples, workload.train.global_batch_size),
        "size": _size(workload),
    }


def _describe_data(data: DataConfig) -> dict[str, Any]:
    return {key: value for key, value in asdict(data).items() if not key.startswith("id_map")}


def _describe_problem(benchmark: Benchmark) -> dict[str, Any]:
    return {
        **{key: getattr(benchmark, key) for key in ("name", "version", "status", "title", "description")},
        "rounds": list(benchmark.rounds),
        "notes": list(benchmark.notes),
        "path": str(benchmark.path),
        "definition_sha256": benchmark.definition_sha256,
        "quality": None if benchmark.stated_quality is None else asdict(benchmark.stated_quality),
        "score": None if benchmark.stated_score is None else asdict(benchmark.stated_score),
        "closed": {key: str(constraint) for key, constraint in benchmark.closed.items()},
        "has_implementation": has_implementation(benchmark),
    }


def _cadence(
    benchmark: Benchmark, train_samples: int | None, global_batch_size: int | None
) -> Mapping[str, int] | None:
    if train_samples is None or global_batch_size is None or benchmark.stated_quality is None:
        return None
    return {
        "global_batch_size": global_batch_size,
        "steps_per_epoch": train_samples // global_batch_size,
        "steps_between_evals": benchmark.steps_between_evals(train_samples, global_batch_size),
    }


def _size(workload: WorkloadConfig) -> Mapping[str, int | None] | None:
    """Return the model's numbers of parameters, lookups and FLOP, and the bytes of one training process without
    Python and torch."""
    data = workload.data
    if data.num_embeddings is None:
        return None
    counts = workload.costs()
    memory = workload.estimate_memory(eval_samples=data.eval_samples) if data.eval_samples else None
    return {
        **{name: getattr(counts, name) for name in _SIZES},
        "memory_bytes": None if memory is None else memory.total_bytes,
    }
