"""What is kept beside data, which may be a stranger's: nothing is locked, removed or written through a link."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from goldens import lay_data

from harness.autotune.id_maps import ensure_id_map
from harness.config.run_config import Override, resolve
from harness.foundation.errors import ExitCode, HarnessError
from harness.planning.learnt import Keeper
from rules.records.kept.learnt import LEARNT_FOLDER

DIGEST = "0123456789abcdef" * 4


def learn(data: Path) -> None:
    keeper = Keeper(data_root=data, seed=0, retrain=False, say=lambda text: None)
    keeper.keep("cost_net", DIGEST, lambda: ({"weights": np.zeros(2, np.float32)}, {}), dict)


def map_ids(data: Path) -> None:
    settings = {"id_map.kind": "hash", "id_map.budget": 0.5}
    given = [Override(key=key, value=value, source="test") for key, value in settings.items()]
    ensure_id_map(resolve("dlrm_tiny", given, "mapped"), data, quiet=True)


KEEPERS: dict[str, Callable[[Path], None]] = {LEARNT_FOLDER: learn, "id_maps": map_ids}


@pytest.fixture
def data(data_root: Path, tmp_path: Path) -> Path:
    """The dataset of dlrm_tiny, its files links, without anything beside it."""
    (folder,) = (path for path in (lay_data(data_root, tmp_path) / "data").iterdir() if path.is_dir())
    shutil.rmtree(folder / "id_maps", ignore_errors=True)
    return folder


@pytest.mark.parametrize("kind", ["link", "link to nothing", "file", "pipe"])
@pytest.mark.parametrize("name", KEEPERS)
def test_a_folder_that_is_a_link_or_none_is_refused_before_anything_is_done(
    name: str, kind: str, data: Path, tmp_path: Path
) -> None:
    users, place = tmp_path / "users", data / name
    kept = users / f"cost_net-{DIGEST[:16]}" / "thesis.txt"
    if kind == "link":
        kept.parent.mkdir(parents=True)
        kept.write_text("precious")
    if kind.startswith("link"):
        place.symlink_to(users)
    elif kind == "file":
        place.write_text("theirs")
    else:
        os.mkfifo(place)
    with pytest.raises(HarnessError, match="expected a folder of its own, or nothing") as refused:
        KEEPERS[name](data)
    assert refused.value.exit_code == ExitCode.INPUT and str(place) in str(refused.value)
    left = [path.name for path in users.rglob("*")]
    assert left == ([kept.parent.name, kept.name] if kind == "link" else [])


def test_what_is_learnt_is_kept_where_there_is_no_link(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "data").symlink_to(tmp_path / "disk")  # which its user named
    learn(tmp_path / "data")
    (folder,) = (tmp_path / "disk" / LEARNT_FOLDER).glob("cost_net-*")
    assert (folder / "weights.npy").is_file()
