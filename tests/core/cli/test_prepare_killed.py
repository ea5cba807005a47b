"""A preparation that is killed is gone on from, and its dataset is that of one that nobody disturbed."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from killed_commands import run_counted, run_killed

from reference_models.data.prepared import pipeline

WORDS = "data prepare ./mine.toml --train a.csv b.csv c.csv -q"
PLACES = 8
"""Writes at which it is killed in an ordinary run of the tests, of about 60."""
DEFINITION = """
[data]
kind = "columns"
name = "mine"
[data.parameters]
label = "click"
dense = [{ column = "price", transform = "standardised" }]
sparse = [{ column = "user" }, { column = "tags", separator = "|", max_ids = 3 }, { column = "ad", rows = 9 }]
split = "SPLIT"
"""


def lay(folder: Path, split: str) -> Path:
    """Write three files, of which the second begins earlier than the first ends, and their definition."""
    folder.mkdir()
    draw = np.random.default_rng(7)
    for number, name in enumerate("abc"):
        frame = pd.DataFrame(
            {
                "user": draw.integers(0, 40, 300),
                "tags": ["|".join("abcde"[: draw.integers(0, 4)]) for _ in range(300)],
                "ad": draw.integers(0, 20, 300),
                "price": np.round(draw.random(300), 3),
                "time": 1_700_000_000 + 200 * number + np.arange(300),
                "click": draw.integers(0, 2, 300),
            }
        )
        frame.to_csv(folder / f"{name}.csv", index=False)
    base = run_counted("show dlrm_tiny --format toml", folder)[0].out
    head, _, rest = base.partition("[data]\n")
    rest = rest[rest.index("\n[", rest.index("[data.parameters]") + 1) :]
    own = DEFINITION.replace("SPLIT", split) + ('time = "time"\n' if split == "time" else "")
    (folder / "mine.toml").write_text(head.replace('name = "dlrm_tiny"', 'name = "mine"') + own + rest)
    return folder


def made(folder: Path) -> dict[str, object]:
    """The files of the dataset; times of files aside."""
    (dataset,) = (folder / "data").glob("mine-*")
    arrays = {path.relative_to(dataset).as_posix(): path for path in dataset.rglob("*.npy")}
    found: dict[str, object] = {name: path.read_bytes() for name, path in arrays.items()}
    manifest = json.loads((dataset / "manifest.json").read_text())
    for entry in manifest["files"].values():
        del entry["mtime_ns"]
    tops = {name.partition("/")[0] for name in found}
    assert sorted(path.name for path in dataset.iterdir()) == sorted([".lock", *tops, "manifest.json"])
    return {**found, "manifest.json": manifest}


@pytest.mark.once("a preparation is killed")
@pytest.mark.parametrize("split", ["fraction", pytest.param("time", marks=pytest.mark.slow)])
def test_what_is_killed_at_a_write_is_gone_on_from(
    tmp_path: Path, split: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of the times are not in order, and are sorted."""
    monkeypatch.setattr(pipeline, "_KEPT_BYTES", 1)
    whole = lay(tmp_path / "whole", split)
    ended, number = run_counted(WORDS, whole)
    assert ended.code == 0, ended.err
    expected = made(whole)
    went_on = 0
    for kill_at in range(2, number, max(1, number // PLACES)):
        folder = tmp_path / "killed"
        shutil.copytree(whole, folder, ignore=shutil.ignore_patterns("data"))
        assert run_killed(WORDS, folder, kill_at), f"write {kill_at} of {number} was not reached"
        dataset = next((folder / "data").glob("mine-*"), folder)
        is_kept = (dataset / ".spool" / "progress.json").exists() and not (dataset / "manifest.json").exists()
        ended, _ = run_counted(WORDS, folder)
        if (dataset / "manifest.json").exists() and ended.code == 2:
            assert "holds a finished dataset" in ended.err
        else:
            assert ended.code == 0, f"killed at write {kill_at} of {number}: {ended.err}"
        assert made(folder) == expected, f"killed at write {kill_at} of {number}"
        went_on += "going on with a preparation that was killed" in " ".join(ended.err.split())
        assert is_kept == ("that was killed" in " ".join(ended.err.split())), f"killed at write {kill_at}"
        shutil.rmtree(folder)
    assert went_on >= 3


def test_what_is_left_of_another_preparation_or_damaged_is_not_gone_on_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "_KEPT_BYTES", 1)
    whole = lay(tmp_path / "whole", "fraction")
    _, number = run_counted(WORDS, whole)
    expected = made(whole)
    killed = tmp_path / "killed"
    shutil.copytree(whole, killed, ignore=shutil.ignore_patterns("data"))
    assert run_killed(WORDS, killed, number // 2)
    (spool,) = (killed / "data").glob("mine-*/.spool")
    kept = json.loads((spool / "progress.json").read_text())
    assert kept["numbered"]
    for change in (
        lambda: (spool / kept["columns"]["labels"][0]).write_bytes(b"x"),
        lambda: (spool / "progress.json").write_text(json.dumps({**kept, "num_rows": -1})),
        lambda: (spool / "progress.json").write_text(
            json.dumps({**kept, "columns": {**kept["columns"], "labels": ["../labels", "uint8", 1]}})
        ),
        lambda: (spool / "progress.json").write_bytes(b"{"),
        lambda: shutil.rmtree(spool.parent / "dictionaries"),
        lambda: (spool.parent / "dictionaries" / "00000.npy").write_bytes(b"x"),
        lambda: (killed / "a.csv").touch(),  # last: nothing that was kept before is of this file
    ):
        folder = tmp_path / "again"
        saved = shutil.copytree(spool.parent, tmp_path / "spool", copy_function=shutil.copy2)
        change()
        ended, _ = run_counted(WORDS, killed)
        assert ended.code == 0 and "that was killed" not in ended.err, ended.err
        assert made(killed) == expected
        shutil.rmtree(spool.parent)
        saved.rename(spool.parent)
        assert not folder.exists()
