"""Which parser and which reader serve which kind of data, and where a dataset is."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from reference_models.config.sections import NUM_CRITEO_DENSE, NUM_CRITEO_SPARSE, DataConfig, Section
from reference_models.data.store.dataset import OpenedDataset
from reference_models.data.synthetic.config import parse_made_up

DATA_KINDS = ("click_log", "criteo", "mlperf_one_hot", "mlperf_multi_hot", "made_up")
DEFAULT_ROOT = Path("data")


def parse_data(table: Mapping[str, Any]) -> DataConfig:
    if table.get("kind") == "made_up":
        return parse_made_up(table)
    section = Section(
        "data",
        table,
        (
            "kind", "name", "train_samples", "eval_samples", "num_dense", "num_embeddings", "multi_hot", "seed",
            "sha256", "parameters",
        ),
    )  # fmt: skip
    kind = section.text("kind", allowed=DATA_KINDS)
    num_embeddings = section.wholes("num_embeddings", low=1) if "num_embeddings" in table else None
    if num_embeddings is None and kind != "criteo":
        raise section.fail("num_embeddings", "a list of whole numbers, one per sparse feature")
    num_sparse = len(num_embeddings) if num_embeddings is not None else NUM_CRITEO_SPARSE
    multi_hot = section.wholes("multi_hot", low=1, default=(1,) * num_sparse)
    if len(multi_hot) != num_sparse:
        raise section.fail("multi_hot", f"{num_sparse} numbers, one per sparse feature")
    if kind in ("criteo", "mlperf_one_hot") and set(multi_hot) != {1}:
        raise section.fail("multi_hot", f"ones only: {kind} data has one id per feature")
    if kind == "click_log":
        section.whole("train_samples", low=1)
        section.whole("eval_samples", low=1)
        section.whole("seed", low=0)
    return DataConfig(
        kind=kind,
        name=section.text("name"),
        train_samples=section.optional_whole("train_samples", low=1),
        eval_samples=section.optional_whole("eval_samples", low=1),
        num_dense=section.whole("num_dense", low=1, default=NUM_CRITEO_DENSE),
        num_embeddings=num_embeddings,
        multi_hot=multi_hot,
        seed=section.optional_whole("seed", low=0),
        sha256=section.text("sha256") if "sha256" in table else None,
        parameters=section.mapping("parameters"),
    )


def dataset_digest(data: DataConfig) -> str:
    """First 12 hex digits of the sha256 of what makes the dataset; names its folder."""
    content = {key: value for key, value in asdict(data).items() if key != "sha256"}
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=list).encode()).hexdigest()[:12]


def locate_dataset(data: DataConfig, root: Path | None) -> Path:
    """The dataset's folder: `root` itself where it is one, else `<root>/<name>-<digest>`."""
    root = DEFAULT_ROOT if root is None else root
    if data.kind.startswith("mlperf_") or (root / "manifest.json").exists():
        return root
    return root / f"{data.name}-{dataset_digest(data)}"


def open_dataset(folder: Path, data: DataConfig) -> OpenedDataset:
    """Open both splits; metadata only. Raises DatasetError."""
    if data.kind == "made_up":
        from reference_models.data.synthetic.dataset import open_made_up

        return open_made_up(data)
    if data.kind.startswith("mlperf_"):
        from reference_models.data.criteo.mlperf_binary import open_mlperf_binary

        return open_mlperf_binary(folder, data)
    from reference_models.data.store.store import open_store

    return open_store(folder, data)
