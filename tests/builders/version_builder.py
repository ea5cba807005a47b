"""A distribution in which a benchmark has a newer version than the one that is current here."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from rules.benchmarks import loader
from rules.benchmarks.loader import Benchmark, load_benchmark


@contextmanager
def next_version(folder: Path, name: str = "dlrm_tiny") -> Iterator[tuple[Benchmark, Benchmark]]:
    """Move the current version of a benchmark among the older ones and put another problem in its place.

    Gives both, the older first. `folder`, which is made, gets the definitions.
    """
    older = load_benchmark(name)
    shutil.copytree(older.path.parent, folder, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    kept = folder / f"version_{older.version}"
    kept.mkdir()
    for path in folder.glob(f"{name}.*"):
        path.rename(kept / path.name)
    text = (kept / f"{name}.toml").read_text()
    for line, changed in (
        (f"version = {older.version}", f"version = {older.version + 1}"),
        (f"target = {older.quality.target:g}", f"target = {older.quality.target - 0.01:g}"),
    ):
        assert text.count(f"\n{line}\n") == 1, line
        text = text.replace(f"\n{line}\n", f"\n{changed}\n")
    (folder / f"{name}.toml").write_text(text)
    with patch.object(loader, "_FOLDER", folder):
        loader.shipped_versions.cache_clear()
        versions = loader.shipped_versions(name)
        try:
            yield versions[-2], versions[-1]
        finally:
            loader.shipped_versions.cache_clear()
