"""Which reader serves which kind of data, and where a dataset lies."""

import hashlib
import json
from dataclasses import asdict
from pathlib import Path

from reference_models.config.sections import DataConfig
from reference_models.data.dataset import OpenedDataset

DEFAULT_ROOT = Path("data")


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
