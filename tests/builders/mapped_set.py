"""dlrm_tiny on few samples through a map of ids: its definition, its data, and a set that was trained."""

import json
import shutil
from pathlib import Path

import pytest
from inside import run_inside, use_workers_inside
from small_set import write_definition

from harness.config.catalog import load_entry
from harness.run_sets.dataset import ensure_dataset

MAPPED = {0: 1000, 1: 500, 4: 1000}
"""Tables of dlrm_tiny with more than 200 rows."""
ALONE = ("--threads", "1", "--seed", "3", "-q", "-o", "out")


def write_mapped(path: Path, **id_map: object) -> Path:
    """A definition on few samples, with an [id_map]."""
    lines = [f"{key} = {json.dumps(value)}" for key, value in id_map.items()]
    definition = write_definition(path)
    definition.write_text("\n".join([definition.read_text(), "[id_map]", *lines, ""]))
    return definition


def make_data(folder: Path) -> Path:
    """Make the data of those definitions in a folder; maps beside it are not to be changed."""
    data = load_entry(write_definition(folder / "mine.toml")).workload.data
    ensure_dataset(data, folder / "data", num_threads=1)
    return folder / "data"


def dataset_in(root: Path) -> Path:
    (folder,) = (path for path in root.iterdir() if path.is_dir())
    return folder


def train_mapped(root: Path, folder: Path) -> Path:
    """Make a folder with a definition, its data with the map, and a set that kept its weights and checkpoints."""
    shutil.copytree(root, folder / "data")
    write_mapped(folder / "mine.toml", kind="quotient_remainder", budget=0.1)
    with pytest.MonkeyPatch.context() as patch:
        use_workers_inside(patch)
        asked = ("--keep-weights", "--set", "checkpoint.every=25%")
        done = run_inside(folder, "run", "./mine.toml", "-n", 1, *asked, "--data", "data", *ALONE)
    assert done.returncode == 0, done.stderr
    return folder
