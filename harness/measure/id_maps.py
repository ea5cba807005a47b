"""Find the map of ids to embedding rows that a configuration uses, and read it with every byte verified."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from harness.config.catalog import WorkloadConfig
from harness.config.synthetic import hold_in_memory
from harness.foundation.errors import ExitCode, HarnessError
from harness.foundation.files import read_record
from harness.foundation.kept_arrays import read_kept
from harness.system.resources import read_resources
from reference_models.config.id_map import IdMapConfig
from reference_models.data.registry import open_dataset
from rules.benchmarks.loader import canonical_sha256
from rules.records.kept.arrays import MANIFEST_FILE
from rules.records.kept.id_maps import ID_MAPS_FOLDER, IdMapManifest

_VERSION = 1
"""Version of the methods that make maps of ids to embedding rows, increased whenever one of the methods changes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class IdMapPlace:
    """Folder of a map from ids to embedding rows. `sizes` is a dict from a table's index to three numbers: the
    table's ids, its rows, and the rows to which each id is mapped. Tables with a row for each id are left out."""

    folder: Path
    sizes: Mapping[int, tuple[int, int, int]]


@dataclass(frozen=True, kw_only=True, slots=True)
class IdMaps:
    """Map of ids to embedding rows, as read from its folder: an int32 array [ids, rows per id] for each table, and
    the digest of the whole map."""

    sha256: str
    tables: Mapping[int, NDArray[np.int32]]


def locate_id_map(config: WorkloadConfig, data_dir: Path) -> IdMapPlace | None:
    """Return the folder and sizes of the configuration's map of ids to rows, by which ids share the rows of an
    embedding table. None if every id has a row of its own, without a map.

    Raises ConfigError if the map's budget leaves a table no row, and DatasetError if data that the map needs is
    missing.
    """
    id_map = config.data.id_map
    if not id_map.is_active:
        return None
    plain = replace(hold_in_memory(config, 1).data, id_map=IdMapConfig(), id_maps=None)
    opened = open_dataset(data_dir, plain)
    num_ids = opened.train.num_embeddings
    shapes = enumerate(zip(num_ids, id_map.shapes(num_ids), strict=True))
    content = {
        "version": _VERSION,
        "id_map": asdict(id_map) if id_map.looks_at_data else {"kind": id_map.kind, "budget": id_map.budget},
        "data": opened.dataset_sha256 or {**asdict(plain), "num_embeddings": num_ids, "train_samples": None},
        "train": asdict(config.train) if id_map.kind == "learned" else None,
    }
    sizes = {table: (ids, rows, width) for table, (ids, (rows, width)) in shapes if rows < ids}
    folder = data_dir / ID_MAPS_FOLDER / f"{id_map.kind}-{canonical_sha256(content)[:16]}"
    return IdMapPlace(folder=folder, sizes=sizes) if sizes else None


def read_id_maps(config: WorkloadConfig, data_dir: Path, sha256: str | None = None) -> IdMaps | None:
    """Return the configuration's map of ids to rows, by which ids share the rows of an embedding table, with every
    byte verified. None if every id has a row of its own, without a map.

    Raises HarnessError (exit 8) if the map is damaged, names rows outside of its tables, or does not have the digest
    `sha256`.
    """
    if (place := locate_id_map(config, data_dir)) is None:
        return None
    again = f"Remove {place.folder}: the next set that needs the map makes it anew."
    manifest = read_record(place.folder / MANIFEST_FILE, IdMapManifest)
    found = {name: (array.dtype, array.shape) for name, array in manifest.tables.items()}
    expected = {f"table_{table}": ("int32", (ids, width)) for table, (ids, _, width) in place.sizes.items()}
    if found != expected or sha256 not in (None, manifest.sha256):
        what = f"{found}, expected {expected}" if found != expected else f"{manifest.sha256[:12]}, not {sha256}"
        raise HarnessError(f"{place.folder / MANIFEST_FILE}: another id map, of {what}. {again}", ExitCode.INPUT)
    available = read_resources().available_memory_bytes
    arrays = read_kept(place.folder, manifest.tables, available_bytes=available, remedy=again)
    for table, (_, num_rows, _) in place.sizes.items():
        rows = arrays[f"table_{table}"]
        if (outside := ((rows < 0) | (rows >= num_rows)).any(axis=1)).any():
            where = f"{place.folder / f'table_{table}.npy'}: id {outside.argmax()}"
            raise HarnessError(
                f"{where} has a row outside of its table, which has {num_rows}. {again}", ExitCode.INPUT
            )
    return IdMaps(sha256=manifest.sha256, tables={table: arrays[f"table_{table}"] for table in place.sizes})
