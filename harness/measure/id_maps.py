"""The map of ids to rows that a configuration reads its data through: where it is, and reading it on no trust."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from harness.config.catalog import WorkloadConfig
from harness.config.synthetic import hold_in_memory
from harness.foundation.errors import ExitCode, HarnessError
from harness.foundation.files import read_record
from reference_models.config.id_map import IdMapConfig
from reference_models.data.registry import open_dataset
from reference_models.process.artifact import check_artifact, read_arrays
from reference_models.process.errors import ArtifactError
from rules.benchmarks.loader import canonical_sha256
from rules.records.kept.arrays import MANIFEST_FILE
from rules.records.kept.id_maps import ID_MAPS_FOLDER, IdMapManifest

_VERSION = 1
"""Raised whenever a kind of map is made in another way."""


@dataclass(frozen=True, kw_only=True, slots=True)
class IdMapPlace:
    """Where the map of a configuration is, and what it must be."""

    folder: Path
    num_ids: tuple[int, ...]
    shapes: tuple[tuple[int, int], ...]
    """Rows, and rows per id, of each table."""

    @property
    def arrays(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of the array of each table that has fewer rows than ids."""
        sizes = enumerate(zip(self.num_ids, self.shapes, strict=True))
        return {f"table_{table}": (ids, width) for table, (ids, (rows, width)) in sizes if rows < ids}


def locate_id_map(config: WorkloadConfig, data_dir: Path) -> IdMapPlace | None:
    """Return where the map is that the configuration asks for; None where each id has a row of its own.

    Raises ConfigError for a budget that leaves a table no row, DatasetError where its data is not there.
    """
    id_map = config.data.id_map
    if not id_map.is_active:
        return None
    plain = replace(hold_in_memory(config, 1).data, id_map=IdMapConfig(), id_maps=None)
    opened = open_dataset(data_dir, plain)
    num_ids = opened.train.num_embeddings
    content = {
        "version": _VERSION,
        "id_map": asdict(id_map) if id_map.looks_at_data else {"kind": id_map.kind, "budget": id_map.budget},
        "data": opened.dataset_sha256 or {**asdict(plain), "num_embeddings": num_ids, "train_samples": None},
        "train": asdict(config.train) if id_map.kind == "learned" else None,
    }
    folder = data_dir / ID_MAPS_FOLDER / f"{id_map.kind}-{canonical_sha256(content)[:16]}"
    place = IdMapPlace(folder=folder, num_ids=num_ids, shapes=id_map.shapes(num_ids))
    return place if place.arrays else None


def find_digest(config: WorkloadConfig, data_dir: Path) -> str | None:
    """Return the digest that the map's manifest gives; None where there is nothing to map. Raises HarnessError."""
    place = locate_id_map(config, data_dir)
    return None if place is None else read_record(place.folder / MANIFEST_FILE, IdMapManifest).sha256


def read_id_map(place: IdMapPlace, sha256: str | None = None) -> Mapping[int, NDArray[np.int32]]:
    """Read the map by table, every byte of it verified, `sha256` its digest where that is known.

    Raises HarnessError (exit 8) where it is damaged, another one, or leads outside of its tables.
    """
    again = f"Remove {place.folder}: 'run' makes it anew, in a set of its own."
    manifest = read_record(place.folder / MANIFEST_FILE, IdMapManifest)
    try:
        found = {name: (array.dtype, array.shape) for name, array in manifest.tables.items()}
        if found != (expected := {name: ("int32", shape) for name, shape in place.arrays.items()}):
            raise ArtifactError(f"{place.folder / MANIFEST_FILE}: tables are {found}, expected {expected}.")
        if sha256 not in (None, manifest.sha256):
            digest = manifest.sha256[:12]
            raise ArtifactError(f"{place.folder}: an id map of digest {digest}, expected {str(sha256)[:12]}.")
        check_artifact(place.folder, manifest.tables)
        arrays = read_arrays(place.folder, manifest.tables)
        maps = {int(name.removeprefix("table_")): array for name, array in arrays.items()}
        for table, rows in maps.items():
            outside = ((rows < 0) | (rows >= place.shapes[table][0])).any(axis=1)
            if outside.any():
                raise ArtifactError(
                    f"{place.folder / f'table_{table}.npy'}: the row of id {int(outside.argmax())} is outside of the "
                    f"{place.shapes[table][0]} rows of its table."
                )
    except ArtifactError as error:
        raise HarnessError(f"{error} {again}", ExitCode.INPUT) from None
    return maps
