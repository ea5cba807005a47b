"""Find the specification of a kind of data (such as `criteo`) by the kind's name, and the folder of a dataset."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from reference_models.config.sections import DataConfig
from reference_models.data.spec import DataSpec, find
from reference_models.data.store.dataset import OpenedDataset
from reference_models.process.errors import ConfigError, DatasetError, did_you_mean

DATA_KINDS: Mapping[str, str] = {
    "click_log": "reference_models.data.click_log.spec:SPEC",
    "click_sequence": "reference_models.data.click_sequence.spec:SPEC",
    "patterns": "reference_models.data.patterns.spec:SPEC",
    "criteo": "reference_models.data.criteo.spec:TEXT",
    "columns": "reference_models.data.columns.spec:SPEC",
    "mlperf_one_hot": "reference_models.data.criteo.spec:MLPERF_ONE_HOT",
    "mlperf_multi_hot": "reference_models.data.criteo.spec:MLPERF_MULTI_HOT",
    "made_up": "reference_models.data.synthetic.spec:SPEC",
    "synthetic": "reference_models.data.synthetic.spec:SPEC",
}
"""Dict from the name of each kind of data, the value of data.kind in a definition, to the place of its `DataSpec`, as
'module:name'."""
DEFAULT_ROOT = Path("data")
_NOT_STORED = ("sha256", "id_map", "id_maps")


def find_data(kind: str) -> DataSpec:
    """Return the specification (`DataSpec`) of the kind of data named `kind`. Raises ConfigError, with a suggestion,
    if the name is unknown."""
    if kind not in DATA_KINDS:
        raise ConfigError(f"data.kind is {kind!r}.{did_you_mean(kind, [*DATA_KINDS])}")
    spec = find(DATA_KINDS[kind])
    assert isinstance(spec, DataSpec)
    return spec


def examples() -> Mapping[str, str]:
    """Return a dict from each kind of data to the shipped benchmark from which the command `init` starts a
    definition; kinds without such a benchmark are left out."""
    names = {kind: find_data(kind).example for kind in DATA_KINDS}
    return {kind: example for kind, example in names.items() if example is not None}


def parse_data(table: Mapping[str, Any]) -> DataConfig:
    """Read section [data] of a benchmark definition. Raises ConfigError naming the wrong field."""
    kind = table.get("kind")
    spec = find_data(kind) if isinstance(kind, str) else DataSpec(example=None)
    return spec.parse_section(table)


def compute_dataset_digest(data: DataConfig) -> str:
    """Return the first 12 hex digits of the sha256 of a dataset's definition, part of its folder's name."""
    content = {key: value for key, value in asdict(replace(data, id_maps=None)).items() if key not in _NOT_STORED}
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=list).encode()).hexdigest()[:12]


def locate_dataset(data: DataConfig, root: Path | None) -> Path:
    """Return a dataset's folder: `<root>/<name>-<digest>` in general. It is `root` itself if `root` holds a manifest,
    or if the data's files are read in place, as their owner wrote them."""
    root = DEFAULT_ROOT if root is None else root
    spec = find_data(data.kind)
    if not (spec.has_store or spec.is_in_memory) or (root / "manifest.json").exists():
        return root
    return root / f"{data.name}-{compute_dataset_digest(data)}"


def generate_dataset(
    folder: Path,
    data: DataConfig,
    *,
    num_threads: int | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> str:
    """Generate a dataset's training and evaluation splits into `folder` and return its dataset_sha256.

    Raises ConfigError, and the errors of `write_parts` (OSError, DatasetError).
    """
    from reference_models.data.store.generate import write_parts  # which needs numpy

    spec = find_data(data.kind)
    assert spec.generate is not None, "callers ask whether a kind is generated"
    return write_parts(
        folder, data, spec.layout, spec.generate(data), num_threads=num_threads, on_progress=on_progress
    )


def open_dataset(folder: Path, data: DataConfig) -> OpenedDataset:
    """Open a dataset's training and evaluation splits, reading metadata only. Raises DatasetError if the dataset
    cannot be opened.

    With section [id_map], ids become rows of smaller tables while samples are read. If the maps (`data.id_maps`) are
    not made yet, the splits have the smaller tables' sizes but cannot be read.
    """
    opened = find_data(data.kind).open_dataset(folder, data)
    if not data.id_map.is_active:
        return opened
    from reference_models.data.id_maps.split import map_splits  # which needs numpy

    return map_splits(opened, data.id_map, data.id_maps)


def verify_dataset(folder: Path, on_bytes: Callable[[int], None] | None = None) -> dict[str, Any]:
    """Check all files' sha256 and all values of a dataset in the store; return its manifest. Raises DatasetError.

    `on_bytes` gets the number of bytes just hashed.
    """
    from reference_models.data.store.manifest import MANIFEST, SOFT_LABELS, read_manifest
    from reference_models.data.store.store import verify

    manifest = read_manifest(folder)
    kind = manifest["kind"]
    if kind not in DATA_KINDS:
        raise DatasetError(f"{folder / MANIFEST}: kind is {kind!r:.80}.{did_you_mean(kind, [*DATA_KINDS])}")
    return verify(folder, find_data(kind).layout_of(SOFT_LABELS in manifest), on_bytes)
