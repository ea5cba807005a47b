"""What is kept beside data, which may be a stranger's: nothing is locked, removed or written through a link."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from goldens import lay_data
from seams import find_seams

from harness.autotune.id_maps import ensure_id_map
from harness.config.run_config import Override, resolve
from harness.foundation.errors import ExitCode, HarnessError
from rules.extensions import load_place


def map_ids(data: Path) -> None:
    settings = {"id_map.kind": "hash", "id_map.budget": 0.5}
    given = [Override(key=key, value=value, source="test") for key, value in settings.items()]
    ensure_id_map(resolve("dlrm_tiny", given, "mapped"), data, quiet=True)


KEEPERS: dict[str, Callable[[Path], object]] = {
    "id_maps": map_ids,
    **{folder: load_place(keep) for folder, keep in find_seams("KEEPERS").items()},
}


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
    kept = users / "cost_net-0123456789abcdef" / "thesis.txt"
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
