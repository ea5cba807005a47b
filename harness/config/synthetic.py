"""Use synthetic data to measure the throughput of data shapes for which no dataset exists: decide when synthetic data
replaces a dataset, and how many samples are made."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from harness.config.catalog import WorkloadConfig
from harness.foundation.errors import ExitCode, HarnessError
from reference_models.config.sections import NUM_CRITEO_SPARSE, DataConfig
from reference_models.data.synthetic.config import SHAPE_KEYS, SYNTHETIC_KINDS, ZIPF_EXPONENT, fitting_samples
from reference_models.process.errors import ConfigError, did_you_mean

_SHAPE = ("num_dense", "num_embeddings", "multi_hot", *SHAPE_KEYS)
_OF_ANY_KIND = ("kind", "name", "train_samples", "eval_samples", "seed", "sha256", "parameters")


def use_synthetic_data(tables: dict[str, Any], sources: dict[str, str]) -> None:
    """Change [data] to synthetic data (kind made_up), in place, where the user requests that kind or changes the
    data's shape; `sources` has the keys that the user changed.

    The definition's shape and the Zipf exponent of its ids stay unless they were changed. Where more embedding tables
    are requested than the definition has, its tables repeat in their order.
    """
    data = tables.get("data", {})
    for key in sources:
        section, _, name = key.partition(".")
        if section == "data" and name not in (*_SHAPE, *_OF_ANY_KIND):
            raise ConfigError(f"{sources[key]}: unknown key {key}.{did_you_mean(name, [*_SHAPE, *_OF_ANY_KIND])}")
    asked = data.get("kind") in SYNTHETIC_KINDS and "data.kind" in sources
    reshaped = [key for key in _SHAPE if f"data.{key}" in sources]
    if not asked and (not reshaped or data.get("kind") in SYNTHETIC_KINDS):
        return
    made = {key: data[key] for key in _SHAPE if key in data}
    made |= {key: data[key] for key in ("train_samples", "seed") if f"data.{key}" in sources}
    parameters = data.get("parameters")
    if isinstance(parameters, Mapping) and "zipf_exponent" in parameters:
        made.setdefault("zipf_exponent", parameters["zipf_exponent"])
    if "num_tables" not in made:
        rows = made.get("num_embeddings")
        made["num_tables"] = len(rows) if isinstance(rows, list) and rows else NUM_CRITEO_SPARSE
    tables["data"] = {"kind": "made_up", "name": "made_up", **made}
    sources.setdefault("data.kind", f"synthetic, since {reshaped[0] if reshaped else 'kind'} has no dataset")


def refuse_reshaped_data(tables: Mapping[str, Any], sources: Mapping[str, str]) -> None:
    """Raise ConfigError if training to a target is asked for on data in a shape for which no dataset exists. Such
    data would be synthetic with random labels, from which no model can learn."""
    reshaped = [f"data.{key}" for key in (*_SHAPE, "kind") if f"data.{key}" in sources]
    if reshaped or tables.get("data", {}).get("kind") == "made_up":
        what = f"{sources[reshaped[0]]}: {reshaped[0]}" if reshaped else "data.kind = 'made_up'"
        raise ConfigError(
            f"{what} has no dataset, and synthetic labels are coin flips that nothing can be learnt from. Measure "
            "quality on a dataset: give the path of a definition whose [data] has this shape, made with 'dlrmbench "
            "data generate' or 'data prepare'; or measure --throughput STEPS."
        )


def hold_in_memory(config: WorkloadConfig, num_steps: int) -> WorkloadConfig:
    """Return `config` with enough synthetic samples for `num_steps` steps, or as many as fit in memory. Return it
    unchanged where its data are not synthetic, or already state a number of samples."""
    if config.data.kind != "made_up" or config.data.train_samples is not None:
        return config
    data = replace(config.data, train_samples=fitting_samples(config.data, config.train.global_batch_size, num_steps))
    return replace(config, data=data)


def synthetic_like(data: DataConfig, num_embeddings: Sequence[int], eval_samples: int) -> DataConfig:
    """Return the configuration of synthetic data with the shape of `data`, the same skew of ids as `data`, and
    `num_embeddings` rows per table."""
    return replace(
        data,
        kind=SYNTHETIC_KINDS[0],
        train_samples=None,
        eval_samples=eval_samples,
        num_embeddings=tuple(num_embeddings),
        seed=0,
        sha256=None,
        parameters={"zipf_exponent": data.parameters.get("zipf_exponent", ZIPF_EXPONENT)},
    )


def refuse_synthetic_target(data: DataConfig) -> None:
    """Raise HarnessError for a run to a target on synthetic data, whose random labels a model cannot learn."""
    if data.kind == "made_up":
        raise HarnessError(
            "data.kind is 'made_up': its labels are coin flips, so no quality target can be reached. "
            "Measure throughput with --throughput STEPS.",
            ExitCode.USAGE,
        )
