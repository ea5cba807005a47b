"""Copies of the product without some of its extensions, as hard links: their folders and lines are gone."""

import os
import re
import shutil
import tomllib
from collections.abc import Collection
from pathlib import Path

import reference_models.registry
from rules.extensions import EXTENSIONS, load_extensions

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("harness", "reference_models", "reports", "rules")
REGISTRY = Path("rules") / "extensions.py"


def with_those_that_need(names: Collection[str]) -> set[str]:
    """Return extensions, and all that need one of them, or one that needs one."""
    gone = set(names)
    while more := {name for name, each in load_extensions().items() if gone & set(each.needs)} - gone:
        gone |= more
    return gone


def link_product(folder: Path, gone: Collection[str], *more: str) -> Path:
    """Make the product in `folder`, and the files and folders of the checkout that `more` names, without extensions.

    Files are hard links, so none may be edited in place: the registry is written anew.
    """
    for name in (*PACKAGES, *more):
        source, target = ROOT / name, folder / name
        if source.is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(source, target, copy_function=_link, ignore=ignored, dirs_exist_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            _link(source, target)
    for name in gone:
        shutil.rmtree(folder / "harness" / "extensions" / name)
        shutil.rmtree(folder / "tests" / "extensions" / name, ignore_errors=True)
    registry = folder / REGISTRY
    text = registry.read_text(encoding="utf-8")
    registry.unlink()
    registry.write_text(without_lines(text, gone), encoding="utf-8")
    return folder


def without_lines(registry: str, gone: Collection[str]) -> str:
    """Return the registry without the line of each of these extensions."""
    for name in gone:
        registry, number = re.subn(rf'^    "{name}": "{re.escape(EXTENSIONS[name])}",\n', "", registry, flags=re.M)
        assert number == 1, name
    return registry


def delete_models(tree: Path) -> None:
    """Delete from a copy all models but DLRM, the kinds of data that only they train on, and their definitions."""
    models = reference_models.registry.MODELS.keys() - {"dlrm"}
    kinds = {"click_sequence", "patterns"}
    for place, names, folders in (
        ("reference_models/registry.py", models, tree / "reference_models"),
        ("reference_models/data/registry.py", kinds, tree / "reference_models" / "data"),
    ):
        registry = tree / place
        text = registry.read_text(encoding="utf-8")
        for name in names:
            shutil.rmtree(folders / name)
            text, number = re.subn(rf'^    "{name}": "reference_models\..*",\n', "", text, flags=re.M)
            assert number == 1, name
        registry.unlink()
        registry.write_text(text, encoding="utf-8")
    for path in (tree / "rules" / "benchmarks").rglob("*.toml"):
        if tomllib.loads(path.read_text(encoding="utf-8"))["benchmark"]["model"] in models:
            for one in path.parent.glob(f"{path.stem}.*"):
                one.unlink()


def _link(source: str | Path, target: str | Path) -> None:
    """Link a file, or copy it where the target is on another file system."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
