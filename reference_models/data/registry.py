"""Which parser and which reader serve which kind of data, and where a dataset is."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, Protocol

from reference_models.config.records import Count, Counts, PositiveCount, read_section, refuse
from reference_models.config.sections import NUM_CRITEO_DENSE, NUM_CRITEO_SPARSE, DataConfig
from reference_models.data.store.dataset import OpenedDataset
from reference_models.data.synthetic.config import SYNTHETIC_KINDS, parse_synthetic
from reference_models.process.errors import ConfigError, did_you_mean

GENERATED: Mapping[str, str] = {
    "click_log": "reference_models.data.click_log",
    "click_sequence": "reference_models.data.click_sequence",
    "patterns": "reference_models.data.patterns",
}
"""Kinds of data that are made here, and the modules that make them, each a `Generator`."""
DATA_KINDS = (*GENERATED, "criteo", "mlperf_one_hot", "mlperf_multi_hot", *SYNTHETIC_KINDS)
DEFAULT_ROOT = Path("data")


@dataclass(frozen=True, kw_only=True)
class DataSection:
    """[data] of a dataset in files. Sizes may come from the files themselves."""

    kind: Literal["click_log", "click_sequence", "patterns", "criteo", "mlperf_one_hot", "mlperf_multi_hot"]
    """`click_log`, `click_sequence` and `patterns` are generated, `criteo` prepared from text in Criteo's form, the
    others are MLPerf's own files."""
    name: str
    """The dataset's name, in the name of its folder."""
    train_samples: PositiveCount | None = None
    """Samples of an epoch; needed for generated data, else checked against the files where given."""
    eval_samples: PositiveCount | None = None
    """Samples of an evaluation; likewise."""
    num_dense: PositiveCount = NUM_CRITEO_DENSE
    """Numbers per sample."""
    num_embeddings: Counts | None = None
    """Rows of each table, one per category; `criteo` takes them from the files."""
    multi_hot: Counts | None = None
    """Ids per sample of each table; one where it is left out."""
    seed: Count | None = None
    """Of the generator; needed for generated data."""
    sha256: str | None = None
    """Digest that the data must have; leave it out of data that you change."""
    parameters: dict[str, Any] = field(default_factory=dict)
    """What makes the data, by kind: see below."""


class Generator(Protocol):
    """A module that makes one kind of data."""

    def generate(
        self, folder: Path, data: DataConfig, *, num_threads: int | None, on_progress: Callable[[int], None] | None
    ) -> str:
        """Make both splits in `folder`; returns dataset_sha256. The bytes depend on `data` alone."""

    def oracle_scores(self, data: DataConfig, split: str) -> tuple[Any, Any]:
        """Return (score, label) of every sample of a split, as its metric takes them: float64 [N] and uint8 [N], or
        float64 [N, T, K] and int64 [N, T] of classes. No model can do better."""


def find_generator(kind: str) -> Generator:
    """Import what makes this kind of data, one of `GENERATED`."""
    module: Any = import_module(GENERATED[kind])
    return module  # type: ignore[no-any-return]


def parse_data(table: Mapping[str, Any]) -> DataConfig:
    """Raises ConfigError naming the field."""
    kind = table.get("kind")
    if kind in SYNTHETIC_KINDS:
        return parse_synthetic(table)
    if isinstance(kind, str) and kind not in DATA_KINDS:
        raise ConfigError(f"data.kind is {kind!r}.{did_you_mean(kind, [*DATA_KINDS])}")
    section = read_section("data", table, DataSection)
    if section.num_embeddings is None and section.kind != "criteo":
        raise refuse("data", table, "num_embeddings", "a list of whole numbers, one per sparse feature")
    num_sparse = len(section.num_embeddings) if section.num_embeddings is not None else NUM_CRITEO_SPARSE
    multi_hot = section.multi_hot or (1,) * num_sparse
    if len(multi_hot) != num_sparse:
        raise refuse("data", table, "multi_hot", f"{num_sparse} numbers, one per sparse feature")
    if section.kind in ("criteo", "mlperf_one_hot") and set(multi_hot) != {1}:
        raise refuse("data", table, "multi_hot", f"ones only: {section.kind} data has one id per feature")
    for key in ("train_samples", "eval_samples", "seed") if section.kind in GENERATED else ():
        if key not in table:
            raise refuse("data", table, key, Count if key == "seed" else PositiveCount)
    return DataConfig(**{**asdict(section), "multi_hot": multi_hot})


def dataset_digest(data: DataConfig) -> str:
    """Return first 12 hex digits of the sha256 of what makes the dataset; names its folder."""
    content = {key: value for key, value in asdict(data).items() if key != "sha256"}
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=list).encode()).hexdigest()[:12]


def locate_dataset(data: DataConfig, root: Path | None) -> Path:
    """Return the dataset's folder: `root` itself where it is one, else `<root>/<name>-<digest>`."""
    root = DEFAULT_ROOT if root is None else root
    if data.kind.startswith("mlperf_") or (root / "manifest.json").exists():
        return root
    return root / f"{data.name}-{dataset_digest(data)}"


def open_dataset(folder: Path, data: DataConfig) -> OpenedDataset:
    """Open both splits; metadata only. Raises DatasetError."""
    if data.kind in SYNTHETIC_KINDS:
        from reference_models.data.synthetic.dataset import open_synthetic

        return open_synthetic(data)
    if data.kind.startswith("mlperf_"):
        from reference_models.data.criteo.mlperf_binary import open_mlperf_binary

        return open_mlperf_binary(folder, data)
    from reference_models.data.store.store import open_store

    return open_store(folder, data)
